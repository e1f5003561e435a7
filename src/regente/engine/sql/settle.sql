-- Write the outcome of attempts. Every statement names id, runner and attempt (the fence): an
-- attempt that has lost its task changes nothing.

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
  RETURNING t.id, t.attempt, t.batch_id
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event)
  SELECT id, batch_id, %(runner_id)s::bigint, attempt, 'task_completed' FROM finished
)
SELECT id FROM finished

-- name: settle
-- Every other outcome. A task with a cancel request does not go back to the queue: it is canceled.
WITH fenced AS MATERIALIZED (
  SELECT t.id, o.value::jsonb AS value, t.cancel_requested_at IS NOT NULL AS unwanted
  FROM unnest(%(ids)s::bigint[], %(attempts)s::integer[], %(outcomes)s::text[])
      AS o (id, attempt, value)
  JOIN regente.tasks t ON t.id = o.id
  WHERE t.attempt = o.attempt
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
  ORDER BY t.id FOR UPDATE OF t
),
outcome AS (
  SELECT id, (value ->> 'charged')::smallint AS charged, (value ->> 'crashed')::smallint AS crashed,
         coalesce((value ->> 'run_at')::timestamptz, regente.clock()
           + make_interval(secs => (value ->> 'delay_seconds')::double precision)) AS run_at,
         value -> 'failure' AS failure,
         value -> 'sleep' AS sleep,
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
      run_at = CASE WHEN o.status = 'queued' THEN o.run_at ELSE t.run_at END,
      finished_at = CASE WHEN o.status >= 'completed' THEN regente.clock() END,
      cancel_requested_at = NULL,
      error_code = coalesce(o.failure ->> 'code', t.error_code),
      error_message = coalesce(o.failure ->> 'message', t.error_message)
  FROM outcome o WHERE t.id = o.id
  RETURNING t.id, t.pipeline, t.attempt, t.batch_id, t.run_at, o.status, o.event, o.details,
            o.failure, o.sleep
),
slept AS (
  INSERT INTO regente.steps (task_id, name, attempt, output)
  SELECT id, sleep ->> 'step', attempt, to_jsonb(run_at) FROM settled
  WHERE jsonb_typeof(sleep) = 'object'
  ON CONFLICT DO NOTHING
),
failed AS (
  INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint, step,
                                stack, details)
  SELECT id, attempt, pipeline, failure ->> 'class', failure ->> 'code', failure ->> 'message',
         failure ->> 'fingerprint',
         failure ->> 'step', failure ->> 'stack', failure -> 'details'
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
