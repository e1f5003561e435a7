-- Runners: one row, one lease and one heartbeat for a whole process.

-- name: register_runner
WITH registered AS (
  INSERT INTO regente.runners (name, host, pid, version, pipelines, concurrency, lease_until)
  VALUES (%(name)s, %(host)s, %(pid)s, %(version)s, %(pipelines)s::text[], %(concurrency)s,
          regente.clock() + make_interval(secs => %(ttl_seconds)s::double precision))
  RETURNING id
),
logged AS (
  INSERT INTO regente.events (runner_id, event, details)
  SELECT id, 'runner_started', jsonb_build_object('name', %(name)s::text, 'pipelines',
                                                  %(pipelines)s::text[]) FROM registered
)
SELECT id FROM registered

-- name: register_pipelines
INSERT INTO regente.pipelines (name, stall_after, expire_after, max_attempts, endless)
SELECT name, make_interval(secs => stall_after), make_interval(secs => expire_after), max_attempts,
       endless
FROM unnest(%(names)s::text[], %(stall_afters)s::double precision[],
            %(expire_afters)s::double precision[],
            %(max_attempts)s::smallint[], %(endless)s::boolean[])
                AS p (name, stall_after, expire_after, max_attempts, endless)
ORDER BY name
ON CONFLICT (name) DO UPDATE SET stall_after = excluded.stall_after,
    expire_after = excluded.expire_after, max_attempts = excluded.max_attempts,
  endless = excluded.endless, seen_at = regente.clock()

-- name: renew_lease
-- No row: another runner declared this one lost. It must stop at once.
UPDATE regente.runners
SET lease_until = regente.clock() + make_interval(secs => %(ttl_seconds)s::double precision),
    heartbeat_at = regente.clock(),
    claimed = %(claimed)s, completed = %(completed)s, failed = %(failed)s, retried = %(retried)s,
    recovered = %(recovered)s, handed_back = %(handed_back)s, busy_seconds = %(busy_seconds)s
WHERE id = %(runner_id)s AND status < 'stopped'
RETURNING id

-- name: set_runner_status
WITH changed AS (
  UPDATE regente.runners
  SET status = %(status)s::regente.runner_status,
      stopped_at = CASE WHEN %(status)s::regente.runner_status = 'stopped' THEN regente.clock() END
  WHERE id = %(runner_id)s AND status < 'stopped' AND status <> %(status)s::regente.runner_status
  RETURNING id
)
INSERT INTO regente.events (runner_id, event, details)
SELECT id, 'runner_' || %(status)s::text, %(details)s::jsonb FROM changed
RETURNING runner_id

-- name: hand_back
-- Hand back the tasks of a runner except those it works on: all when it stops or has lost its
-- lease, or those of a claim with a lost answer. No try and no crash is charged.
WITH handed AS (
  UPDATE regente.tasks t
  SET runner_id = NULL, run_at = regente.clock(),
      status = CASE WHEN t.cancel_requested_at IS NOT NULL THEN 'canceled'
          ELSE 'queued' END::regente.task_status,
      finished_at = CASE WHEN t.cancel_requested_at IS NOT NULL THEN regente.clock() END,
      cancel_requested_at = NULL
  WHERE t.runner_id = %(runner_id)s AND t.status = 'running' AND t.id <> ALL (%(except)s::bigint[])
  RETURNING t.id, t.pipeline, t.batch_id, t.attempt, t.status
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event)
  SELECT id, batch_id, %(runner_id)s, attempt, CASE status WHEN 'queued' THEN 'task_handed_back'
      ELSE 'task_canceled' END
  FROM handed
),
woken AS (SELECT pg_notify('regente_queued', pipeline)
          FROM (SELECT DISTINCT pipeline FROM handed WHERE status = 'queued') AS p)
SELECT id, (SELECT count(*) FROM woken) FROM handed

-- name: canceled_here
SELECT id, attempt FROM regente.tasks
WHERE runner_id = %(runner_id)s AND status = 'running' AND cancel_requested_at IS NOT NULL

-- name: list_runners
SELECT r.id, r.name, r.host, r.pid, r.version, r.status::text AS status, r.pipelines, r.concurrency,
       r.started_at,
       r.heartbeat_at, r.lease_until, r.stopped_at, r.claimed, r.completed, r.failed, r.retried,
       r.recovered, r.handed_back,
       r.busy_seconds, r.status < 'stopped' AND r.lease_until > regente.clock() AS alive,
       (SELECT count(*) FROM regente.tasks t WHERE t.runner_id = r.id AND t.status = 'running')
           AS running,
       (SELECT count(*) FROM regente.tasks t JOIN regente.pipelines p ON p.name = t.pipeline
        WHERE t.runner_id = r.id AND t.status = 'running'
          AND t.heartbeat_at < regente.clock() - p.stall_after) AS stuck
FROM regente.runners r
WHERE (%(id)s::bigint IS NULL OR r.id = %(id)s) AND (%(everyone)s OR r.status < 'stopped')
ORDER BY r.id DESC
LIMIT %(limit)s
