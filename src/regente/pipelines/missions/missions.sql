-- What the three pipelines of the missions write besides the engine's own records. A statement that
-- writes on a worker names the worker's driver or the mission that holds the worker, and does
-- nothing when another one does.

-- name: be_brief
-- What a runner changes in the fleet has events of the driver or the mission, and no other.
SELECT set_config('idle_in_transaction_session_timeout', '5s', true),
       set_config('regente.by', '(runner)', true)

-- name: settings
SELECT key, value FROM regente.settings WHERE key = ANY (%(keys)s::text[])

-- The orchestrator.

-- name: lock_orchestrator
SELECT o.state, o.stopped_by, o.task_id,
       EXISTS (SELECT FROM regente.tasks t WHERE t.id = o.task_id AND t.status < 'completed')
           AS has_dispatcher
FROM regente.orchestrator o FOR UPDATE OF o

-- name: open_orchestrator
UPDATE regente.orchestrator SET state = 'open', stopped_by = NULL, task_id = %(task_id)s,
  opened_at = CASE WHEN state = 'closed' THEN regente.clock() ELSE opened_at END, closed_at = NULL

-- name: stop_orchestrator
UPDATE regente.orchestrator SET state = %(state)s, stopped_by = %(by)s WHERE state <> 'closed'
RETURNING state

-- name: keep_closed
UPDATE regente.orchestrator SET stopped_by = %(by)s WHERE state = 'closed'

-- name: close_orchestrator
UPDATE regente.orchestrator SET state = 'closed', closed_at = regente.clock(), task_id = NULL

-- name: hand_back
-- Missions that wait for a retry are queued missions after a stop.
UPDATE regente.mission_runs r SET checkpoint = 'atribuido' FROM regente.tasks t
WHERE t.id = r.mission_id AND t.pipeline = 'missions' AND t.status = 'queued'
  AND r.checkpoint = 'extracao'
  AND NOT EXISTS (SELECT FROM regente.workers w WHERE w.current_mission_id = t.id)

-- name: orchestrator
SELECT o.state, o.stopped_by, o.opened_at, o.closed_at, o.task_id,
       EXISTS (SELECT FROM regente.tasks t WHERE t.pipeline = 'missions' AND t.status = 'queued')
           AS any_queued,
       EXISTS (SELECT FROM regente.tasks t WHERE t.pipeline = 'missions' AND t.status = 'running')
           AS any_running,
       EXISTS (SELECT FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
               WHERE t.pipeline = 'missions' AND t.status = 'queued' AND (
                 r.checkpoint = 'armazenamento' OR EXISTS (SELECT FROM regente.workers w
                                                           WHERE w.current_mission_id = t.id))
              ) AS any_begun
FROM regente.orchestrator o

-- name: undriven_workers
-- Active workers, and inactive ones that an earlier driver left with a session or a proxy.
SELECT w.id FROM regente.workers w
WHERE (w.active AND w.storage_domain IS NOT NULL OR w.status <> 'idle'
       OR EXISTS (SELECT FROM regente.proxies p WHERE p.in_use_by_worker_id = w.id))
  AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.id = w.driver_id AND t.status < 'completed')
ORDER BY w.id FOR UPDATE OF w SKIP LOCKED

-- name: set_driver
UPDATE regente.workers SET driver_id = d.task_id
FROM unnest(%(worker_ids)s::text[], %(task_ids)s::bigint[]) AS d (worker_id, task_id)
WHERE id = d.worker_id

-- Sessions.

-- name: reserve_proxy
-- A random free proxy; the one of the previous session only when no other is free.
WITH last AS (SELECT s.proxy_id FROM regente.sessions s WHERE s.worker_id = %(worker_id)s
              ORDER BY s.id DESC LIMIT 1),
picked AS (
  SELECT p.id FROM regente.proxies p WHERE p.active AND p.in_use_by_worker_id IS NULL
  ORDER BY p.id IS NOT DISTINCT FROM (SELECT proxy_id FROM last), random()
  LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE regente.proxies p SET in_use_by_worker_id = %(worker_id)s, last_used_at = regente.clock()
FROM picked WHERE p.id = picked.id RETURNING p.id, p.name

-- name: last_session
SELECT s.id, s.proxy_name, s.reason FROM regente.sessions s WHERE s.worker_id = %(worker_id)s
ORDER BY s.id DESC LIMIT 1

-- name: begin_session
WITH begun AS (
  INSERT INTO regente.sessions (worker_id, proxy_id, proxy_name, driver_id)
  VALUES (%(worker_id)s, %(proxy_id)s, %(proxy_name)s, %(driver_id)s) RETURNING id
)
UPDATE regente.workers w SET status = 'initializing', session_id = begun.id, session_count = 0,
       updated_at = regente.clock()
FROM begun WHERE w.id = %(worker_id)s AND w.driver_id = %(driver_id)s AND w.status = 'idle'
  AND w.removed_at IS NULL
RETURNING begun.id

-- name: session_of_worker
SELECT s.id, s.proxy_id, s.proxy_name FROM regente.workers w
JOIN regente.sessions s ON s.id = w.session_id
WHERE w.id = %(worker_id)s AND s.ended_at IS NULL

-- name: current_session
SELECT s.id, s.proxy_id, s.proxy_name, s.missions, s.ready_at IS NOT NULL AS ready,
       extract(epoch FROM regente.clock() - s.started_at)::double precision AS age_seconds
FROM regente.sessions s WHERE s.id = %(session_id)s

-- name: session_ready
WITH ready AS (
  UPDATE regente.sessions SET ready_at = coalesce(ready_at, regente.clock())
  WHERE id = %(session_id)s
  RETURNING (extract(epoch FROM coalesce(ready_at, regente.clock()) - started_at) * 1000)::bigint
      AS duration_ms
)
UPDATE regente.workers SET status = 'ready', failures = 0, rest_until = NULL, error_code = NULL,
       error_message = NULL,
  updated_at = regente.clock()
FROM ready WHERE id = %(worker_id)s AND driver_id = %(driver_id)s
    AND status IN ('initializing', 'ready')
RETURNING duration_ms

-- name: session_failed
-- The worker rests, twice as long after each failure in a row; its proxy is free at once.
WITH freed AS (UPDATE regente.proxies SET in_use_by_worker_id = NULL
               WHERE in_use_by_worker_id = %(worker_id)s),
ended AS (UPDATE regente.sessions SET ended_at = regente.clock(), reason = %(code)s
          WHERE id = %(session_id)s AND ended_at IS NULL)
UPDATE regente.workers
SET status = 'error', failures = failures + 1, error_code = %(code)s, error_message = %(message)s,
    updated_at = regente.clock(),
    rest_until = regente.clock()
        + make_interval(secs => coalesce(%(rest_seconds)s::double precision,
                                                             least(
      %(limit_seconds)s::double precision,
      %(backoff_seconds)s::double precision * 2 ^ least(failures, 20))))
WHERE id = %(worker_id)s AND driver_id = %(driver_id)s
  AND status IN ('initializing', 'ready', 'error') RETURNING failures

-- name: end_session
-- The worker is idle, without a session and a proxy, in any state it was.
WITH freed AS (UPDATE regente.proxies SET in_use_by_worker_id = NULL
               WHERE in_use_by_worker_id = %(worker_id)s),
ended AS (
  UPDATE regente.sessions s SET ended_at = regente.clock(), reason = %(reason)s
  FROM regente.workers w WHERE w.id = %(worker_id)s AND s.id = w.session_id AND s.ended_at IS NULL
)
UPDATE regente.workers SET status = 'idle', session_count = 0, session_id = NULL,
       updated_at = regente.clock()
WHERE id = %(worker_id)s AND driver_id = %(driver_id)s AND current_mission_id IS NULL RETURNING id

-- name: worker_error
SELECT error_code FROM regente.workers WHERE id = %(worker_id)s

-- name: deactivate_worker
UPDATE regente.workers SET active = false, error_code = %(code)s, error_message = %(message)s,
       updated_at = regente.clock()
WHERE id = %(worker_id)s AND active RETURNING name

-- name: judge_session
-- Mark a failed session, and say how many failures now count against its proxy: this one if it is
-- the proxy's own fault; all of its failures in a row, of any kind, if the same worker had a
-- session through another proxy since the last of them.
WITH this AS (SELECT id, worker_id, proxy_id FROM regente.sessions WHERE id = %(session_id)s),
streak AS (
  SELECT s.id, s.worker_id FROM this JOIN regente.sessions s ON s.proxy_id = this.proxy_id
  WHERE (s.suspect OR s.id = this.id) AND s.id > coalesce((
    SELECT good.id FROM regente.sessions good
    WHERE good.proxy_id = this.proxy_id AND good.id < this.id
      AND (good.completed > 0 OR good.ready_at IS NOT NULL AND NOT good.suspect)
    ORDER BY good.id DESC LIMIT 1), 0)
),
verdict AS (
  SELECT EXISTS (
    SELECT FROM this JOIN regente.sessions good
      ON good.worker_id = this.worker_id AND good.proxy_id <> this.proxy_id
    WHERE (good.completed > 0 OR good.ready_at IS NOT NULL AND NOT good.suspect)
      AND good.id > (SELECT max(s.id) FROM streak s
                     WHERE s.worker_id = this.worker_id AND s.id < this.id)) AS guilty
),
marked AS (
  UPDATE regente.sessions s
  SET suspect = true,
      blamed = v.guilty OR %(own_fault)s
  FROM streak, verdict v
  WHERE s.id = streak.id AND (s.id = %(session_id)s OR v.guilty AND NOT s.blamed)
  RETURNING s.blamed
)
SELECT count(*) FILTER (WHERE blamed) AS strikes FROM marked

-- name: blame_proxy
-- A proxy with `max_failures` strikes is deactivated, unless so many proxies fail at once that the
-- target must be down.
WITH recent AS (
  SELECT count(*) AS all_of_them,
         count(*) FILTER (WHERE last_failed_at > regente.clock()
             - make_interval(secs => %(window_seconds)s)
                            AND id <> %(proxy_id)s) AS failing
  FROM regente.proxies WHERE active
)
UPDATE regente.proxies p
SET fail_count = p.fail_count + %(strikes)s, last_failed_at = regente.clock(),
    last_failure = %(reason)s,
    active = p.active AND NOT (p.fail_count + %(strikes)s >= %(max_failures)s
                               AND (r.all_of_them < 3
                                    OR r.failing + 1 <= %(share)s * r.all_of_them))
FROM recent r WHERE p.id = %(proxy_id)s
RETURNING p.name, p.fail_count, p.active, r.all_of_them >= 3
    AND r.failing + 1 > %(share)s * r.all_of_them AS outage

-- name: open_breaker
INSERT INTO regente.settings (key, value)
    VALUES ('proxy_breaker', jsonb_build_object('probe_at', regente.clock()))
ON CONFLICT (key) DO NOTHING RETURNING key

-- name: take_probe
-- True when the breaker is closed, or when this worker may make the next probe.
WITH open AS (SELECT key FROM regente.settings WHERE key = 'proxy_breaker'),
taken AS (
  UPDATE regente.settings SET value = jsonb_build_object('probe_at', regente.clock())
  WHERE key = 'proxy_breaker' AND (value ->> 'probe_at')::timestamptz
      < regente.clock() - make_interval(secs => %(every_seconds)s)
  RETURNING key
)
SELECT NOT EXISTS (SELECT FROM open) OR EXISTS (SELECT FROM taken)

-- name: close_breaker
-- Failures from before no longer count towards the next opening.
WITH closed AS (DELETE FROM regente.settings WHERE key = 'proxy_breaker' RETURNING key),
calmed AS (UPDATE regente.proxies SET last_failed_at = NULL WHERE last_failed_at IS NOT NULL
           AND EXISTS (SELECT FROM closed))
SELECT key FROM closed

-- Assigning missions to workers.

-- name: next_mission
-- The mission that has waited longest, and whether this worker must change its proxy for it first.
-- One that failed through this proxy waits for another one for a limited time, as long as another
-- one is free and did not fail since, or is in a session that is about to take it.
SELECT t.id, t.attempt, r.avoid_proxy_id, a.name AS avoided, t.error_code,
       (SELECT w.name FROM regente.workers w WHERE w.id = %(worker_id)s) AS worker_name,
       coalesce(other.is_free, false) AS change_proxy
FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
LEFT JOIN regente.proxies a ON a.id = r.avoid_proxy_id
CROSS JOIN LATERAL (
  SELECT bool_or(p.in_use_by_worker_id IS NULL) AS is_free
  FROM regente.proxies p LEFT JOIN regente.workers w ON w.id = p.in_use_by_worker_id
  WHERE r.avoid_proxy_id = %(proxy_id)s
    AND coalesce(r.avoid_since, t.queued_at)
        > regente.clock() - make_interval(secs => %(avoid_seconds)s::double precision)
    AND p.active AND p.id <> %(proxy_id)s AND CASE
    WHEN p.in_use_by_worker_id IS NOT NULL
    THEN w.active AND w.status IN ('initializing', 'ready')
      AND (w.rest_until IS NULL OR w.rest_until <= regente.clock())
    ELSE NOT EXISTS (SELECT FROM regente.settings WHERE key = 'proxy_breaker')
      AND NOT EXISTS (
        SELECT FROM regente.sessions s
        WHERE s.proxy_id = p.id AND s.ready_at IS NULL AND s.ended_at IS NOT NULL
          AND s.started_at > coalesce(r.avoid_since, t.queued_at)) END
) AS other
WHERE t.pipeline = 'missions' AND t.status = 'queued'
  AND regente.is_held(t.run_at)
  AND (r.not_before IS NULL OR r.not_before <= regente.clock())
  AND other.is_free IS DISTINCT FROM false
  AND NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = 'missions' AND p.paused)
  AND NOT EXISTS (SELECT FROM regente.orchestrator o WHERE o.state <> 'open')
  AND NOT EXISTS (SELECT FROM regente.workers w WHERE w.current_mission_id
                  = t.id)  -- its earlier worker is not released yet
ORDER BY t.queued_at, t.id LIMIT 1 FOR UPDATE OF t SKIP LOCKED

-- name: assign_mission
UPDATE regente.mission_runs
SET checkpoint = 'extracao', worker_id = %(worker_id)s, session_id = %(session_id)s,
    proxy_used = %(proxy_name)s, not_before = NULL,
    worker_job_id = NULL, scrape_no = scrape_no + 1, scrape_sent_at = NULL, scrape_started_at = NULL
WHERE mission_id = %(mission_id)s

-- name: assign_worker
UPDATE regente.workers SET status = 'scraping', current_mission_id = %(mission_id)s,
       updated_at = regente.clock()
WHERE id = %(worker_id)s AND driver_id = %(driver_id)s AND status = 'ready'
  AND current_mission_id IS NULL RETURNING id

-- name: join_session
WITH joined AS (
  INSERT INTO regente.mission_sessions (mission_id, session_id)
      VALUES (%(mission_id)s, %(session_id)s)
  ON CONFLICT (mission_id, session_id) DO UPDATE SET left_at = NULL
)
UPDATE regente.sessions SET missions = missions + 1 WHERE id = %(session_id)s

-- name: log_for_mission
INSERT INTO regente.events (task_id, attempt, event, details)
VALUES (%(mission_id)s, %(attempt)s, %(event)s, %(details)s::jsonb)

-- name: worker_states
SELECT (SELECT o.state = 'open' FROM regente.orchestrator o) AS open,
       coalesce((SELECT value::text::integer FROM regente.settings WHERE key = 'session_limit'),
                %(session_limit)s) AS session_limit,
       w.id, w.status::text AS status, w.current_mission_id, w.active, w.session_count,
       greatest(0, extract(epoch FROM w.rest_until - regente.clock()))::double precision
           AS rest_seconds,
       w.current_mission_id IS NOT NULL AND (
         t.status IS DISTINCT FROM 'running' AND t.status IS DISTINCT
             FROM 'queued' OR r.worker_id IS DISTINCT FROM w.id) AS orphaned
FROM regente.workers w LEFT JOIN regente.tasks t ON t.id = w.current_mission_id
LEFT JOIN regente.mission_runs r ON r.mission_id = t.id
WHERE w.id = ANY (%(ids)s::text[])

-- name: orchestrator_state
SELECT state FROM regente.orchestrator

-- name: waiting_missions
-- How many missions could be assigned now; counted up to 200.
SELECT count(*) AS waiting FROM (
  SELECT FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
  WHERE t.pipeline = 'missions' AND t.status = 'queued'
    AND regente.is_held(t.run_at)
    AND (r.not_before IS NULL OR r.not_before <= regente.clock())
  LIMIT 200) AS w

-- What a mission's own task reads and writes.

-- name: mission
SELECT r.mission_id, r.checkpoint::text AS checkpoint, r.worker_id, r.session_id, r.proxy_used,
       r.scrape_no, r.worker_job_id,
       r.scrape_sent_at IS NOT NULL AS scrape_sent, r.worker_data_url, r.ads_count, r.writer_id,
       r.writer_no, r.writer_job_id,
       r.writer_sent_at IS NOT NULL AS writer_sent, r.retry_count, r.returns, r.success_count,
       r.failed_count,
       coalesce(extract(epoch FROM regente.clock() - r.scrape_started_at), 0)::double precision
           AS scrape_seconds,
       coalesce(extract(epoch FROM regente.clock() - r.writer_started_at), 0)::double precision
           AS writer_seconds,
       (extract(epoch FROM regente.clock() - t.queued_at) * 1000)::bigint AS total_duration_ms,
       w.id IS NOT NULL AS has_worker, s.proxy_id, s.completed AS session_completed
FROM regente.mission_runs r JOIN regente.tasks t ON t.id = r.mission_id
LEFT JOIN regente.workers w ON w.current_mission_id = r.mission_id AND w.id = r.worker_id
LEFT JOIN regente.sessions s ON s.id = r.session_id
WHERE r.mission_id = %(mission_id)s

-- name: about_to_scrape
UPDATE regente.mission_runs SET scrape_sent_at = regente.clock() WHERE mission_id = %(mission_id)s

-- name: scrape_started
UPDATE regente.mission_runs SET worker_job_id = %(job_id)s, scrape_started_at = regente.clock()
WHERE mission_id = %(mission_id)s

-- name: scrape_ended
-- The next checkpoint is the storage, or the end when there is nothing to store.
UPDATE regente.mission_runs
SET checkpoint = %(checkpoint)s::regente.checkpoint_type, worker_data_url = %(url)s,
    ads_count = %(ads_count)s,
    success_count = CASE WHEN %(ads_count)s = 0 THEN 0 END, failed_count = CASE
        WHEN %(ads_count)s = 0 THEN 0 END,
    writer_id = NULL, writer_sent_at = NULL, writer_job_id = NULL
WHERE mission_id = %(mission_id)s

-- name: leave_worker
-- Release the worker: `ready` continues its session, `error` makes its driver end the session.
WITH worker AS (
  UPDATE regente.workers
  SET status = %(status)s::regente.worker_status, current_mission_id = NULL,
      session_count = session_count + %(counted)s,
      error_code = %(code)s, error_message = %(message)s, updated_at = regente.clock(),
      rest_until = CASE WHEN %(rest_seconds)s::double precision > 0
                        THEN regente.clock()
                            + make_interval(secs => %(rest_seconds)s::double precision)
                                                             ELSE rest_until END
  WHERE current_mission_id = %(mission_id)s RETURNING session_id
),
counted AS (
  UPDATE regente.sessions s SET completed = s.completed + %(counted)s
  FROM worker WHERE s.id = worker.session_id AND %(counted)s > 0
)
UPDATE regente.mission_sessions m SET left_at = regente.clock() FROM worker
WHERE m.mission_id = %(mission_id)s AND m.session_id = worker.session_id

-- name: charge_mission
-- Use up one retry, if one is left.
UPDATE regente.mission_runs
SET retry_count = retry_count + 1, writer_failures = writer_failures + %(writer_failed)s
WHERE mission_id = %(mission_id)s
  AND retry_count < coalesce((SELECT value::text::integer FROM regente.settings
                              WHERE key = 'max_retries'), %(max_retries)s)
  AND (%(writer_failed)s = 0 OR writer_failures < 1)
RETURNING retry_count

-- name: back_to_queue
-- As if the mission had not been assigned: no retry is used up.
UPDATE regente.mission_runs
SET checkpoint = 'atribuido', worker_id = NULL, worker_job_id = NULL, scrape_sent_at = NULL,
    scrape_started_at = NULL,
    returns = returns + %(counted)s, avoid_proxy_id = coalesce(%(avoid_proxy_id)s, avoid_proxy_id),
    avoid_since = CASE WHEN %(avoid_proxy_id)s::text IS NULL THEN avoid_since
                       ELSE regente.clock() END,
    not_before = CASE WHEN %(wait_seconds)s::double precision > 0
                      THEN regente.clock()
                          + make_interval(secs => %(wait_seconds)s::double precision) END
WHERE mission_id = %(mission_id)s RETURNING returns

-- name: last_failure
SELECT e.details ->> 'error_code' AS code, e.details ->> 'error_message' AS message
FROM regente.events e
WHERE e.task_id = %(mission_id)s AND e.event IN ('scrape_failed', 'session_failed')
ORDER BY e.id DESC LIMIT 1

-- name: scrape_again
UPDATE regente.mission_runs
SET worker_job_id = NULL, scrape_sent_at = NULL, scrape_started_at = NULL,
    avoid_proxy_id = %(avoid_proxy_id)s, avoid_since = regente.clock()
WHERE mission_id = %(mission_id)s

-- name: about_to_store
-- The intent to send the job, with its writer and the number in its id. The lock keeps the writer
-- from being removed meanwhile; one that was is not sent anything.
UPDATE regente.mission_runs SET writer_id = %(writer_id)s, writer_no = writer_no + %(another)s,
       writer_sent_at = regente.clock()
WHERE mission_id = %(mission_id)s
  AND EXISTS (SELECT FROM regente.writers w
              WHERE w.id = %(writer_id)s AND w.removed_at IS NULL FOR SHARE)
RETURNING writer_no

-- name: writer_started
UPDATE regente.mission_runs SET writer_job_id = %(job_id)s, writer_started_at = regente.clock()
WHERE mission_id = %(mission_id)s

-- name: store_again
UPDATE regente.mission_runs SET writer_job_id = NULL, writer_sent_at = NULL, writer_id = NULL,
       avoid_writer_id = writer_id
WHERE mission_id = %(mission_id)s

-- name: leave_writer
-- Another writer is asked for, and then sent, the same job: its name stays.
UPDATE regente.mission_runs SET writer_id = NULL, writer_job_id = NULL
WHERE mission_id = %(mission_id)s

-- Writers. A healthy one has had no failure since its last success.

-- name: healthy_writer
SELECT id FROM regente.writers WHERE active AND failures = 0 AND failed_jobs = 0
  AND id IS DISTINCT FROM %(not_id)s
ORDER BY id IS NOT DISTINCT FROM (SELECT r.avoid_writer_id FROM regente.mission_runs r
                                  WHERE r.mission_id = %(mission_id)s), random()
LIMIT 1

-- name: try_writer
-- One whose rest is over, for one mission at a time. While another one is healthy, only for a
-- mission that has not failed yet: it can afford a job that fails.
UPDATE regente.writers w
SET rest_until = regente.clock() + make_interval(secs => least(
      %(limit_seconds)s::double precision,
      %(backoff_seconds)s::double precision * 2 ^ least(failures + failed_jobs, 20)))
WHERE w.id = (
  SELECT o.id FROM regente.writers o JOIN regente.mission_runs r ON r.mission_id = %(mission_id)s
  WHERE o.active AND (o.failures > 0 OR o.failed_jobs > 0) AND o.id IS DISTINCT FROM %(not_id)s
    AND (o.rest_until IS NULL OR o.rest_until <= regente.clock())
    AND (r.retry_count = 0 AND o.id IS DISTINCT FROM r.avoid_writer_id
         OR NOT EXISTS (SELECT FROM regente.writers h
                        WHERE h.active AND h.failures = 0 AND h.failed_jobs = 0))
  ORDER BY o.rest_until NULLS FIRST LIMIT 1 FOR UPDATE OF o SKIP LOCKED)
RETURNING w.id

-- name: rest_writer
-- Twice as long after each failure in a row; those of one rest count once, unless this mission was
-- to try the writer again. One whose job failed rests only if another one is healthy: the rows may
-- be to blame.
UPDATE regente.writers w
SET failures = failures + 1 - %(failed_job)s, failed_jobs = failed_jobs + %(failed_job)s,
    last_failed_at = regente.clock(), error_code = %(code)s, error_message = %(message)s,
    rest_until = regente.clock() + make_interval(secs => least(
      %(limit_seconds)s::double precision,
      %(backoff_seconds)s::double precision * 2 ^ least(failures + failed_jobs, 20)))
WHERE w.id = %(writer_id)s
  AND (%(tried)s OR w.rest_until IS NULL OR w.rest_until <= regente.clock())
  AND (%(failed_job)s = 0 OR EXISTS (
    SELECT FROM regente.writers o
    WHERE o.active AND o.failures = 0 AND o.failed_jobs = 0 AND o.id <> w.id))
RETURNING w.name, failures + failed_jobs AS failures, rest_until

-- name: writer_answers
-- It accepted a job, or stored one: then the jobs that failed are forgotten, too.
UPDATE regente.writers w
SET failures = 0, failed_jobs = CASE WHEN %(stored)s THEN 0 ELSE failed_jobs END,
    rest_until = CASE WHEN %(stored)s OR failed_jobs = 0 THEN NULL ELSE rest_until END,
    error_code = CASE WHEN NOT %(stored)s AND failed_jobs > 0 THEN error_code END,
    error_message = CASE WHEN NOT %(stored)s AND failed_jobs > 0 THEN error_message END
WHERE w.id = %(writer_id)s AND w.active
  AND (w.failures > 0 OR %(stored)s AND w.failed_jobs > 0)
RETURNING w.name, w.failed_jobs = 0 AS healthy

-- name: deactivate_writer
UPDATE regente.writers SET active = false, error_code = %(code)s, error_message = %(message)s,
       last_failed_at = regente.clock(), updated_at = regente.clock()
WHERE id = %(writer_id)s AND active RETURNING name

-- name: next_try_of_a_writer
SELECT greatest(0, extract(epoch FROM min(rest_until) - regente.clock()))::double precision
    AS seconds
FROM regente.writers WHERE active

-- name: stored
UPDATE regente.mission_runs SET checkpoint = 'finalizado', success_count = %(success_count)s,
       failed_count = %(failed_count)s
WHERE mission_id = %(mission_id)s

-- name: keep_failed_items
INSERT INTO regente.mission_failed_items (mission_id, index, data, error)
SELECT %(mission_id)s, i.index, i.data::jsonb, i.error
FROM unnest(%(indexes)s::bigint[], %(data)s::text[], %(errors)s::text[]) AS i (index, data, error)
ON CONFLICT (mission_id, index) DO UPDATE SET data = excluded.data, error = excluded.error

-- What people do.

-- name: new_runs
INSERT INTO regente.mission_runs (mission_id, day, checkpoint)
SELECT id, args ->> 'date_start', CASE WHEN %(queued)s THEN 'atribuido' END::regente.checkpoint_type
FROM regente.tasks WHERE id = ANY (%(ids)s::bigint[])

-- name: queue_runs
UPDATE regente.mission_runs SET checkpoint = 'atribuido' WHERE mission_id = ANY (%(ids)s::bigint[])

-- name: fresh_runs
-- A retry by a person: all retries again. A mission whose extraction is finished goes to storage.
UPDATE regente.mission_runs r
SET retry_count = 0, writer_failures = 0, returns = 0, not_before = NULL, avoid_proxy_id = NULL,
    avoid_since = NULL, avoid_writer_id = NULL,
    writer_id = NULL,
    writer_sent_at = NULL, writer_job_id = NULL,
    checkpoint = CASE WHEN r.checkpoint = 'armazenamento' THEN r.checkpoint ELSE 'atribuido' END,
    worker_id = CASE WHEN r.checkpoint = 'armazenamento' THEN r.worker_id END,
    worker_job_id = CASE WHEN r.checkpoint = 'armazenamento' THEN r.worker_job_id END,
    scrape_sent_at = NULL
FROM regente.tasks t
WHERE r.mission_id = ANY (%(ids)s::bigint[]) AND t.id = r.mission_id
  AND t.status IN ('failed', 'canceled')

-- name: timeline
SELECT l.timestamp, l.event, l.details FROM regente.mission_logs l
WHERE l.mission_id = %(mission_id)s
ORDER BY l.timestamp, l.id

-- name: failed_items
SELECT index, data, error FROM regente.mission_failed_items WHERE mission_id = %(mission_id)s
ORDER BY index LIMIT %(limit)s

-- name: why_not
SELECT o.state, o.stopped_by, r.checkpoint::text AS checkpoint, r.writer_id,
       r.not_before > regente.clock() AS rate_limited, r.not_before,
       (SELECT count(*) FROM regente.workers w WHERE w.active) AS active_workers,
       (SELECT count(*) FROM regente.workers w WHERE w.active AND w.status = 'ready')
           AS ready_workers,
       (SELECT count(*) FROM regente.workers w WHERE w.active AND w.status = 'scraping')
           AS scraping_workers,
       (SELECT count(*) FROM regente.workers w WHERE w.active AND w.status = 'error')
           AS failing_workers,
       (SELECT count(*) FROM regente.proxies p WHERE p.active) AS active_proxies,
       (SELECT count(*) FROM regente.proxies p WHERE p.active AND p.in_use_by_worker_id IS NULL)
           AS free_proxies,
       (SELECT count(*) FROM regente.writers w WHERE w.active) AS active_writers,
       (SELECT count(*) FROM regente.writers w
        WHERE w.active AND w.failures = 0 AND w.failed_jobs = 0) AS healthy_writers,
       (SELECT string_agg(w.name || ': ' || w.error_message, '; ' ORDER BY w.name)
        FROM regente.writers w WHERE w.error_message IS NOT NULL) AS writer_errors,
       (SELECT min(w.rest_until) FROM regente.writers w WHERE w.active) AS next_writer_at,
       (SELECT w.name || ': ' || w.error_message FROM regente.writers w
        WHERE w.id = r.writer_id AND w.failures > 0) AS writer_error,
       (SELECT count(*) FROM regente.runners a
        WHERE a.status = 'running' AND a.lease_until > regente.clock()
          AND 'missions' = ANY (a.pipelines)) AS runners,
       EXISTS (SELECT FROM regente.settings s WHERE s.key = 'proxy_breaker') AS breaker,
       EXISTS (SELECT FROM regente.pipelines p WHERE p.name = 'missions' AND p.paused) AS paused,
       (SELECT count(*) FROM (
          SELECT FROM regente.tasks q WHERE q.pipeline = 'missions' AND q.status = 'queued'
              AND (q.queued_at, q.id) < (t.queued_at, t.id)
          LIMIT 10001) AS a) AS ahead,
       w.name AS worker_name
FROM regente.mission_runs r JOIN regente.tasks t ON t.id = r.mission_id CROSS
JOIN regente.orchestrator o
LEFT JOIN regente.workers w ON w.id = r.worker_id
WHERE r.mission_id = %(mission_id)s

-- name: put_setting
INSERT INTO regente.settings (key, value) VALUES (%(key)s, %(value)s::jsonb)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = regente.clock()

-- name: log_action
INSERT INTO regente.events (event, details) VALUES (%(event)s, %(details)s::jsonb)
