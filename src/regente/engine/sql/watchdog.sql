-- Recovery. Each statement re-checks state and owner in its own UPDATE, so any number of runners
-- may sweep at once.

-- name: take_turn
-- Take the turn of a sweep that was not begun for its interval; otherwise learn in how many
-- seconds it is due. Of processes that ask at once one gets the turn and none waits. A process that
-- dies in its turn costs one interval. A time far ahead is that of a clock that was set back.
WITH due AS MATERIALIZED (
  SELECT name FROM regente.sweeps
  WHERE name = %(name)s
    AND (begun_at <= regente.clock() - make_interval(secs => %(every_seconds)s::double precision)
         OR begun_at > regente.clock()
             + make_interval(secs => %(every_seconds)s::double precision))
  FOR UPDATE SKIP LOCKED
),
taken AS (
  UPDATE regente.sweeps s SET begun_at = regente.clock() FROM due WHERE s.name = due.name
  RETURNING s.name
),
first AS (
  INSERT INTO regente.sweeps (name, begun_at) SELECT %(name)s, regente.clock()
  WHERE NOT EXISTS (SELECT FROM regente.sweeps WHERE name = %(name)s)
  ON CONFLICT DO NOTHING RETURNING name
)
SELECT EXISTS (SELECT FROM taken UNION ALL SELECT FROM first) AS taken,
       (SELECT extract(epoch FROM begun_at - regente.clock())::double precision
               + %(every_seconds)s::double precision
        FROM regente.sweeps WHERE name = %(name)s) AS due_seconds

-- name: mark_lost_runners
-- Runners whose lease is over, unless no runner could renew; those get another 30 s (see
-- no_runner_could_renew). A row that its runner is renewing, or that another session has locked,
-- is skipped.
WITH late AS MATERIALIZED (
  SELECT r.id, r.name,
         r.amnesties < 2 AND (SELECT max(a.heartbeat_at) FROM regente.runners a
                              WHERE a.status < 'stopped') < regente.clock() - r.lease / 2 AS spared
  FROM regente.runners r
  WHERE r.status < 'stopped' AND r.lease_until < regente.clock()
  ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
),
spared AS (
  UPDATE regente.runners r SET amnesties = r.amnesties + 1,
         lease_until = greatest(r.lease_until,
                                regente.clock() + least(r.lease, interval '30 seconds'))
  FROM late WHERE r.id = late.id AND late.spared RETURNING r.id
),
lost AS (
  UPDATE regente.runners r SET status = 'lost', stopped_at = regente.clock()
  FROM late WHERE r.id = late.id AND NOT late.spared RETURNING r.id, r.name
),
logged AS (
  INSERT INTO regente.events (runner_id, event, details)
  SELECT id, 'runner_lost', jsonb_build_object('name', name) FROM lost
  UNION ALL SELECT id, 'runner_spared', NULL FROM spared
)
SELECT id AS runner_id FROM lost

-- name: count_lost_work
-- What lost runners did after their last renewal, which brought their counters.
UPDATE regente.runners r
SET claimed = r.claimed + done.claimed, completed = r.completed + done.completed,
    failed = r.failed + done.failed, retried = r.retried + done.retried,
    handed_back = r.handed_back + done.handed_back
FROM (
  SELECT e.runner_id,
         count(*) FILTER (WHERE e.event = 'task_claimed') AS claimed,
         count(*) FILTER (WHERE e.event = 'task_completed') AS completed,
         count(*) FILTER (WHERE e.event = 'task_failed'
                          AND e.details ->> 'reason' IS NULL) AS failed,
         count(*) FILTER (WHERE e.event = 'task_retried') AS retried,
         count(*) FILTER (WHERE e.event = 'task_handed_back') AS handed_back
  FROM regente.events e JOIN regente.runners l ON l.id = e.runner_id AND e.at >= l.heartbeat_at
  WHERE l.id = ANY (%(ids)s::bigint[])
    AND e.at >= (SELECT min(heartbeat_at) FROM regente.runners
                 WHERE id = ANY (%(ids)s::bigint[]))
  GROUP BY e.runner_id) AS done
WHERE r.id = done.runner_id AND r.status = 'lost'

-- name: end_sessions
-- Ends the transactions of lost runners, whose locks would make the next attempts wait. In the same
-- transaction as `mark_lost_runners`, so that no task is queued before. Only those of this database
-- and user may be ended; a pooler may append the client's address to the name.
SELECT a.pid, a.usename::text,
       CASE WHEN a.usename = current_user THEN pg_terminate_backend(a.pid, 2000) ELSE false END
           AS ended
FROM regente.runners r JOIN pg_stat_activity a
  ON a.application_name || ' ' LIKE r.connections || ' %%'
WHERE r.id = ANY (%(ids)s::bigint[]) AND a.datname = current_database()
  AND (a.xact_start IS NOT NULL OR a.usename <> current_user) AND a.pid <> pg_backend_pid()
  AND NOT EXISTS (SELECT FROM regente.runners again
                  WHERE again.connections = r.connections AND again.status < 'stopped')

-- name: reap
-- Running tasks of a lost runner are queued again, in their former place, or become dead letters
-- after too many crashes. When suspects were among them, only these are blamed; none is when the
-- runner stopped in order and could only not write the outcome. Ordered by runner, because the
-- tasks of one runner are judged together, and ordered by id the scan of the primary key would read
-- the history.
WITH orphan AS MATERIALIZED (
  SELECT t.id, t.pipeline, t.runner_id AS gone, t.cancel_requested_at IS NOT NULL AS unwanted,
         t.crashes
  FROM regente.tasks t
  WHERE t.status = 'running' AND NOT EXISTS (SELECT FROM regente.runners r
                                             WHERE r.id = t.runner_id AND r.status < 'stopped')
  ORDER BY t.runner_id, t.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
verdict AS (
  SELECT o.id, o.gone, o.unwanted,
         CASE WHEN EXISTS (SELECT FROM regente.pipelines p WHERE p.name = o.pipeline AND p.endless)
             THEN 0
              WHEN EXISTS (SELECT FROM regente.runners r
                           WHERE r.id = o.gone AND r.status = 'stopped') THEN 0
              WHEN o.crashes >= 2 OR NOT EXISTS (SELECT FROM orphan s
                                                 WHERE s.gone = o.gone AND s.crashes >= 2)
              THEN 1 ELSE 0 END AS blame
  FROM orphan o
),
reaped AS (
  UPDATE regente.tasks t
  SET runner_id = NULL, crashes = t.crashes + v.blame,
      status = CASE WHEN v.unwanted THEN 'canceled'
          WHEN t.crashes + v.blame >= %(max_crashes)s THEN 'failed'
                    ELSE 'queued' END::regente.task_status,
      finished_at = CASE WHEN v.unwanted OR t.crashes + v.blame >= %(max_crashes)s
          THEN regente.clock() END,
      cancel_requested_at = NULL,
      error_code = CASE WHEN v.blame = 1 THEN 'CRASHED' ELSE t.error_code END,
      error_message = CASE WHEN v.blame = 1 THEN 'its runner died while running it (' || t.crashes
          + 1 || ' of ' || %(max_crashes)s || ')'
                           ELSE t.error_message END
  FROM verdict v WHERE t.id = v.id
  RETURNING t.id, t.pipeline, t.attempt, t.batch_id, t.status, t.crashes, t.checkpoint,
            t.error_message, v.gone, v.blame
),
failed AS (
  INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint, step)
  SELECT id, attempt, pipeline, 'crash', 'CRASHED', error_message, md5('CRASHED' || pipeline),
         checkpoint
  FROM reaped WHERE blame = 1
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, gone, attempt,
         CASE status WHEN 'queued' THEN 'task_recovered' WHEN 'failed' THEN 'task_failed'
              ELSE 'task_canceled' END,
         jsonb_build_object('reason', 'runner_lost', 'crashes', crashes)
  FROM reaped
),
woken AS (SELECT pg_notify('regente_queued', pipeline)
          FROM (SELECT DISTINCT pipeline FROM reaped WHERE status = 'queued') AS p)
SELECT id, status::text, (SELECT count(*) FROM woken) FROM reaped

-- name: release_stalled
-- Stalled tasks of a live runner that does not take them back itself. The runner has one more
-- stall_after to do it. While a runner lives on an amnesty, its tasks could not show progress.
WITH silent AS MATERIALIZED (
  SELECT r.id, p.max_attempts AS allowed, p.stall_after
  FROM regente.runners alive
       CROSS JOIN LATERAL (SELECT id, pipeline, heartbeat_at FROM regente.tasks t
                           WHERE t.runner_id = alive.id AND t.status = 'running' OFFSET 0) AS r
       JOIN regente.pipelines p ON p.name = r.pipeline
  WHERE alive.status < 'stopped' AND alive.amnesties = 0
    AND r.heartbeat_at < regente.clock() - 2 * p.stall_after
  LIMIT %(limit)s
),
stuck AS MATERIALIZED (
  SELECT t.id, t.runner_id AS holder, s.allowed, s.stall_after
  FROM silent s JOIN regente.tasks t ON t.id = s.id
  WHERE t.status = 'running' AND t.heartbeat_at < regente.clock() - 2 * s.stall_after
  ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
),
released AS (
  UPDATE regente.tasks t
  SET runner_id = NULL, tries = t.tries + 1,
      run_at = CASE WHEN t.lane IS NULL THEN regente.clock() ELSE t.run_at END,
      lane_run_at = CASE WHEN t.lane IS NOT NULL THEN regente.clock() END,
      status = CASE WHEN t.cancel_requested_at IS NOT NULL THEN 'canceled'
                    WHEN t.tries + 1 >= coalesce(t.max_attempts, s.allowed) THEN 'failed'
                        ELSE 'queued' END::regente.task_status,
      finished_at = CASE WHEN t.cancel_requested_at IS NOT NULL
          OR t.tries + 1 >= coalesce(t.max_attempts, s.allowed)
                         THEN regente.clock() END,
      cancel_requested_at = NULL, error_code = 'STALLED',
      error_message = 'no progress for ' || s.stall_after || ' (found by another runner)'
  FROM stuck s WHERE t.id = s.id
  RETURNING t.id, t.pipeline, t.attempt, t.batch_id, t.status, t.checkpoint, t.error_message,
            s.holder
),
failed AS (
  INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint, step)
  SELECT id, attempt, pipeline, 'stall', 'STALLED', error_message, md5('STALLED' || pipeline),
         checkpoint FROM released
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, holder, attempt,
         CASE status WHEN 'queued' THEN 'task_stalled' WHEN 'failed' THEN 'task_failed'
              ELSE 'task_canceled' END,
         jsonb_build_object('reason', 'stalled', 'checkpoint', checkpoint)
  FROM released
),
interrupted AS (SELECT pg_notify('regente_cancel', holder::text)
                FROM (SELECT DISTINCT holder FROM released) AS h),
woken AS (SELECT pg_notify('regente_queued', pipeline)
          FROM (SELECT DISTINCT pipeline FROM released WHERE status = 'queued') AS p)
SELECT id, status::text, (SELECT count(*) FROM interrupted), (SELECT count(*) FROM woken)
FROM released

-- name: expire
-- Queued and running tasks that were first started too long ago become dead letters. Searched for
-- each pipeline by these states, so that the history is not read.
WITH late AS MATERIALIZED (
  SELECT l.id, p.expire_after
  FROM regente.pipelines p CROSS JOIN LATERAL (
    (SELECT q.id FROM regente.tasks q
     WHERE q.status = 'queued' AND q.pipeline = p.name
       AND q.started_at < regente.clock() - p.expire_after
     ORDER BY q.started_at LIMIT 1000)
    UNION ALL
    SELECT r.id
    FROM regente.runners alive
         CROSS JOIN LATERAL (SELECT id, pipeline, started_at FROM regente.tasks t
                             WHERE t.runner_id = alive.id AND t.status = 'running' OFFSET 0) AS r
    WHERE alive.status < 'stopped' AND r.pipeline = p.name
      AND r.started_at < regente.clock() - p.expire_after
  ) AS l
  WHERE p.expire_after IS NOT NULL
  LIMIT %(limit)s
),
old AS MATERIALIZED (
  SELECT t.id, t.runner_id AS holder, late.expire_after
  FROM late JOIN regente.tasks t ON t.id = late.id
  WHERE t.status IN ('queued', 'running') AND t.started_at < regente.clock() - late.expire_after
  ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
),
expired AS (
  UPDATE regente.tasks t
  SET status = 'failed', runner_id = NULL, finished_at = regente.clock(),
      cancel_requested_at = NULL, error_code = 'EXPIRED',
      error_message = 'not done within ' || o.expire_after || ' of its first start'
  FROM old o WHERE t.id = o.id
  RETURNING t.id, t.pipeline, t.attempt, t.batch_id, t.checkpoint, t.error_message, o.holder
),
failed AS (
  INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint, step)
  SELECT id, attempt, pipeline, 'timeout', 'EXPIRED', error_message, md5('EXPIRED' || pipeline),
         checkpoint FROM expired
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, holder, attempt, 'task_failed',
         jsonb_build_object('reason', 'expired', 'checkpoint', checkpoint)
  FROM expired
),
interrupted AS (SELECT pg_notify('regente_cancel', holder::text)
                FROM (SELECT DISTINCT holder FROM expired WHERE holder IS NOT NULL) AS h)
SELECT id, (SELECT count(*) FROM interrupted) FROM expired

-- name: forget_tasks
-- Retention: delete finished tasks older than the limit, with their steps. Dead letters and tasks
-- of open batches are kept, and children whose parent may still ask for them. A deleted task is
-- subtracted from its batch's total, so the ledger still adds up. Ids rise with time: the statement
-- reads a page from the oldest on, until a page has no task that is old enough, and never reads
-- younger ones. The limit is a constant, so that the planner sees that it is small. The last column
-- says whether the page has nothing but tasks that are kept: the next sweep need not read it.
WITH kept AS MATERIALIZED (
  SELECT name FROM regente.pipelines WHERE kept AND NOT %(kept_too)s::boolean
),
page AS MATERIALIZED (
  SELECT id, created_at, finished_at, pipeline FROM regente.tasks WHERE id > %(after)s::bigint
  ORDER BY id LIMIT 1000
),
old AS MATERIALIZED (
  SELECT t.id, t.batch_id
  FROM page JOIN regente.tasks t ON t.id = page.id
  WHERE page.pipeline NOT IN (SELECT name FROM kept)
    AND page.finished_at < regente.clock()
      - make_interval(secs => %(keep_seconds)s::double precision)
    AND t.status IN ('completed', 'canceled', 'skipped')
    AND t.finished_at < regente.clock() - make_interval(secs => %(keep_seconds)s::double precision)
    AND NOT EXISTS (SELECT FROM regente.batches b WHERE b.id = t.batch_id
                    AND (b.status < 'completed' OR EXISTS (
                         SELECT FROM regente.tasks p WHERE p.id = b.parent_id
                         AND p.status NOT IN ('completed', 'canceled', 'skipped'))))
  ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
),
steps AS (DELETE FROM regente.steps WHERE task_id IN (SELECT id FROM old)),
intents AS (DELETE FROM regente.intents WHERE task_id IN (SELECT id FROM old)),
signals AS (DELETE FROM regente.signals WHERE task_id IN (SELECT id FROM old)),
waits AS (DELETE FROM regente.waits WHERE task_id IN (SELECT id FROM old)),
failures AS (DELETE FROM regente.failures WHERE task_id IN (SELECT id FROM old)),
counted AS (
  UPDATE regente.batches b SET total = b.total - f.forgotten
  FROM (SELECT batch_id, count(*) AS forgotten FROM old GROUP BY batch_id) AS f
  WHERE b.id = f.batch_id
),
gone AS (DELETE FROM regente.tasks WHERE id IN (SELECT id FROM old) RETURNING id)
SELECT (SELECT count(*) FROM gone), max(id),
       coalesce(min(created_at) < regente.clock()
           - make_interval(secs => %(keep_seconds)s::double precision), false),
       coalesce(bool_and(pipeline IN (SELECT name FROM kept)), false)
FROM page

-- name: forget_batches
DELETE FROM regente.batches b
WHERE b.status >= 'completed' AND b.total = 0
  AND b.finished_at < regente.clock() - make_interval(secs => %(keep_seconds)s::double precision)
  AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.batch_id = b.id)
RETURNING id

-- name: forget_events
-- Delete the oldest events, except those of tasks that still exist; what operators did is kept
-- longer. The position is stored: a reader of the feed before it has missed events. In pages, as in
-- forget_tasks.
WITH kept AS MATERIALIZED (
  SELECT name FROM regente.pipelines WHERE kept AND NOT %(kept_too)s::boolean
),
page AS MATERIALIZED (
  SELECT txid, id, at, task_id, event FROM regente.events
  WHERE (txid, id) > (%(after_txid)s::xid8, %(after_id)s::bigint) ORDER BY txid, id LIMIT 1000
),
old AS MATERIALIZED (
  SELECT txid, id FROM page
  WHERE at < regente.clock() - make_interval(secs => CASE event
          WHEN 'operator_action' THEN %(audit_seconds)s ELSE %(keep_seconds)s
        END::double precision)
    AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.id = page.task_id)
),
floor AS (
  INSERT INTO regente.settings (key, value)
  SELECT 'feed_floor', jsonb_build_object('txid', o.txid::text, 'id', o.id)
  FROM old o ORDER BY o.txid DESC, o.id DESC LIMIT 1
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = regente.clock()
  WHERE ((settings.value ->> 'txid')::xid8, (settings.value ->> 'id')::bigint)
      < ((excluded.value ->> 'txid')::xid8, (excluded.value ->> 'id')::bigint)
),
gone AS (DELETE FROM regente.events e USING old WHERE e.txid = old.txid AND e.id = old.id
         RETURNING e.id, e.details -> 'audit' AS audit),
audit_floor AS (
  INSERT INTO regente.settings (key, value)
  SELECT 'audit_floor', audit - 'previous' FROM gone WHERE audit IS NOT NULL
  ORDER BY (audit ->> 'number')::bigint DESC LIMIT 1
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = regente.clock()
  WHERE (settings.value ->> 'number')::bigint < (excluded.value ->> 'number')::bigint
),
last AS (SELECT txid, id FROM page ORDER BY txid DESC, id DESC LIMIT 1)
SELECT (SELECT count(*) FROM gone), (SELECT txid::text FROM last), (SELECT id FROM last),
       coalesce(min(at) < regente.clock()
           - make_interval(secs => %(keep_seconds)s::double precision),
                                                          false),
       EXISTS (SELECT FROM kept) AND NOT EXISTS (
         SELECT FROM page p WHERE NOT EXISTS (
           SELECT FROM regente.tasks t
           WHERE t.id = p.task_id AND t.pipeline IN (SELECT name FROM kept)))
FROM page

-- name: forget_runners
DELETE FROM regente.runners
WHERE status >= 'stopped'
  AND stopped_at < regente.clock() - make_interval(secs => %(keep_seconds)s::double precision)
  AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.runner_id = runners.id
                  AND t.status = 'running')
RETURNING id
