-- Write the outcome of attempts. Every statement names id, runner and attempt (the fence): an
-- attempt that has lost its task changes nothing. None waits long for a row that another session
-- has locked, maybe for hours; set inside the statement, the timeout counts through a pooler too.
-- When it is over, `lock_free_tasks` finds the other rows.

-- name: finish
-- Runner and status are compared in a form that no index serves, so that PostgreSQL uses the
-- primary key. In the index on running tasks it would step over the entries of finished ones.
WITH finished AS (
  UPDATE regente.tasks t
  SET status = 'completed', runner_id = NULL, finished_at = regente.clock(), progress = 1,
      cancel_requested_at = NULL,
      error_code = NULL, error_message = NULL, result = o.result::jsonb
  FROM unnest(%(ids)s::bigint[], %(attempts)s::integer[], %(results)s::text[])
      AS o (id, attempt, result)
  WHERE t.id = o.id AND t.attempt = o.attempt
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
    AND (SELECT set_config('lock_timeout', '200ms', true)) IS NOT NULL
  RETURNING t.id, t.attempt, t.batch_id
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event)
  SELECT id, batch_id, %(runner_id)s::bigint, attempt, 'task_completed' FROM finished
)
SELECT id FROM finished

-- name: settle
-- Every other outcome. A task that is handed back keeps its place in the queue. One with a cancel
-- request does not go back: it is canceled. Of failures that were throttled with the same code the
-- first and the last are kept, with their number: a task may be throttled for ever.
WITH fenced AS MATERIALIZED (
  SELECT t.id, o.value::jsonb AS value, t.cancel_requested_at IS NOT NULL AS unwanted
  FROM unnest(%(ids)s::bigint[], %(attempts)s::integer[], %(outcomes)s::text[])
      AS o (id, attempt, value)
  JOIN regente.tasks t ON t.id = o.id
  WHERE t.attempt = o.attempt
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
    AND (SELECT set_config('lock_timeout', '200ms', true)) IS NOT NULL
  ORDER BY t.id FOR UPDATE OF t
),
outcome AS (
  SELECT id, (value ->> 'charged')::smallint AS charged, (value ->> 'crashed')::smallint AS crashed,
         coalesce((value ->> 'run_at')::timestamptz, regente.clock()
           + make_interval(secs => (value ->> 'delay_seconds')::double precision)) AS run_at,
         value -> 'failure' AS failure,
         value -> 'sleep' AS sleep,
         value ->> 'wait' AS wait,
         CASE WHEN value ->> 'status' = 'queued' AND unwanted THEN 'canceled'
              ELSE value ->> 'status'
         END::regente.task_status AS status,
         CASE WHEN value ->> 'status' = 'queued' AND unwanted THEN 'task_canceled'
              ELSE value ->> 'event' END AS event,
         nullif(value -> 'details', 'null') AS details
  FROM fenced
),
settled AS (
  UPDATE regente.tasks t
  SET status = o.status, runner_id = NULL, tries = t.tries + o.charged,
      crashes = t.crashes + o.crashed,
      run_at = CASE WHEN o.status <> 'queued' OR t.lane IS NOT NULL THEN t.run_at
                    WHEN o.wait IS NOT NULL THEN regente.waits_until(t.id, o.wait)
                    ELSE coalesce(o.run_at, t.run_at) END,
      lane_run_at = CASE WHEN o.status <> 'queued' OR t.lane IS NULL THEN t.lane_run_at
                         WHEN o.wait IS NOT NULL THEN regente.waits_until(t.id, o.wait)
                         ELSE coalesce(o.run_at, t.lane_run_at) END,
      finished_at = CASE WHEN o.status >= 'completed' THEN regente.clock() END,
      cancel_requested_at = NULL,
      error_code = coalesce(o.failure ->> 'code', t.error_code),
      error_message = coalesce(o.failure ->> 'message', t.error_message)
  FROM outcome o WHERE t.id = o.id
  RETURNING t.id, t.pipeline, t.attempt, t.batch_id, coalesce(t.lane_run_at, t.run_at) AS run_at,
            o.status, o.event, o.details, o.failure, o.sleep
),
slept AS (
  INSERT INTO regente.steps (task_id, name, attempt, output)
  SELECT id, sleep ->> 'step', attempt, to_json(run_at) FROM settled
  WHERE jsonb_typeof(sleep) = 'object'
  ON CONFLICT DO NOTHING
),
throttled AS MATERIALIZED (
  SELECT s.id, s.failure ->> 'code' AS code, min(f.id) AS first
  FROM settled s JOIN regente.failures f ON f.task_id = s.id
  WHERE s.failure ->> 'class' = 'throttled' AND f.class = 'throttled'
    AND f.code = s.failure ->> 'code'
  GROUP BY s.id, s.failure ->> 'code'
),
forgotten AS (
  DELETE FROM regente.failures f USING throttled t
  WHERE f.task_id = t.id AND f.id > t.first AND f.class = 'throttled' AND f.code = t.code
  RETURNING f.task_id, CASE WHEN jsonb_typeof(f.details -> 'throttled_times') = 'number'
                            THEN (f.details ->> 'throttled_times')::numeric - 1 ELSE 1 END AS times
),
failed AS (
  INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint, step,
                                stack, details)
  SELECT id, attempt, pipeline, failure ->> 'class', failure ->> 'code', failure ->> 'message',
         failure ->> 'fingerprint',
         failure ->> 'step', failure ->> 'stack',
         failure -> 'details' || coalesce(
           (SELECT jsonb_build_object('throttled_times', 2 + coalesce(
              (SELECT sum(f.times) FROM forgotten f WHERE f.task_id = t.id), 0))
            FROM throttled t WHERE t.id = settled.id), '{}')
  FROM settled WHERE jsonb_typeof(failure) = 'object'
  RETURNING id, task_id
),
attached AS (
  INSERT INTO regente.snapshots (failure_id, name, content_type, truncated, body)
  SELECT f.id, s.name, s.content_type, s.truncated, decode(s.body, 'base64')
  FROM failed f JOIN unnest(%(snapshot_ids)s::bigint[], %(snapshot_names)s::text[],
                            %(snapshot_types)s::text[],
                            %(snapshots_truncated)s::boolean[], %(snapshot_bodies)s::text[])
    AS s (task_id, name, content_type, truncated, body) ON s.task_id = f.task_id
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, %(runner_id)s::bigint, attempt, event, details FROM settled
)
SELECT id FROM settled

-- name: lock_free_tasks
-- Lock the tasks that no other session has locked; those that one has are returned.
WITH free AS MATERIALIZED (
  SELECT id FROM regente.tasks WHERE id = ANY (%(ids)s::bigint[])
    AND (SELECT set_config('lock_timeout', '200ms', true)) IS NOT NULL
  ORDER BY id FOR UPDATE SKIP LOCKED
)
SELECT t.id FROM regente.tasks t
WHERE t.id = ANY (%(ids)s::bigint[]) AND t.id NOT IN (SELECT id FROM free)

-- name: row_lock_holders
-- The sessions that hold locks on these tasks, as far as a single one holds each.
SELECT DISTINCT format('%%s (pid %%s, %%s, %%s since %%s)', a.application_name, a.pid, a.usename,
                       a.state, a.state_change::timestamptz(0))
FROM regente.tasks t
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = t.xmax
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE t.id = ANY (%(ids)s::bigint[])
