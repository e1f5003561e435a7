-- The stored steps of tasks.

-- name: record_steps
-- The UPDATE sets the heartbeat and checks the fence; it locks the task's row until the step's row
-- is committed with it. `within` limits the wait for that lock. In a pipeline's own transaction the
-- commit comes next, and the server ends the transaction of a runner that is frozen before it.
WITH fenced AS (
  UPDATE regente.tasks t
  SET heartbeat_at = regente.clock(), checkpoint = coalesce(m.checkpoint, t.checkpoint),
      progress = coalesce(m.progress, t.progress)
  FROM unnest(%(ids)s::bigint[], %(attempts)s::integer[], %(checkpoints)s::text[],
              %(progress)s::real[])
    AS m (id, attempt, checkpoint, progress)
  WHERE t.id = m.id AND t.attempt = m.attempt
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
    AND (SELECT set_config('lock_timeout', %(within)s, true)) IS NOT NULL
  RETURNING t.id, t.attempt
),
recorded AS (
  INSERT INTO regente.steps (task_id, name, item, attempt, output, duration_ms, call)
  SELECT s.task_id, s.name, s.item, fenced.attempt, s.output::json, s.duration_ms, s.call
  FROM unnest(%(task_ids)s::bigint[], %(names)s::text[], %(items)s::integer[], %(outputs)s::text[],
              %(durations_ms)s::real[], %(calls)s::text[])
    AS s (task_id, name, item, output, duration_ms, call)
  JOIN fenced ON fenced.id = s.task_id
  ON CONFLICT DO NOTHING
  RETURNING task_id, name, item, attempt, duration_ms
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  -- Not joined with `fenced`: PostgreSQL would join two lists of unknown length each with each.
  SELECT r.task_id, (SELECT t.batch_id FROM regente.tasks t WHERE t.id = r.task_id),
         %(runner_id)s::bigint, r.attempt,
         'step_completed', jsonb_build_object('step', r.name, 'duration_ms', r.duration_ms)
  FROM recorded r WHERE r.item < 0
)
SELECT id, (SELECT set_config('idle_in_transaction_session_timeout', %(within)s, true))
FROM fenced

-- name: recall_steps
SELECT name, item, output::text, call FROM regente.steps WHERE task_id = %(task_id)s

-- name: add_event
-- An event of the pipeline, under the fence, and stored as a step, so that it is added once. It
-- does not wait for a row that another session has locked.
WITH free AS MATERIALIZED (
  SELECT id FROM regente.tasks WHERE id = %(task_id)s FOR UPDATE SKIP LOCKED
),
fenced AS (
  UPDATE regente.tasks t SET heartbeat_at = regente.clock()
  FROM free
  WHERE t.id = free.id AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
  RETURNING t.id, t.batch_id
),
recorded AS (
  INSERT INTO regente.steps (task_id, name, attempt) SELECT id, %(step)s, %(attempt)s FROM fenced
  ON CONFLICT DO NOTHING RETURNING task_id
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, %(runner_id)s::bigint, %(attempt)s, %(event)s, %(details)s::jsonb
  FROM fenced JOIN recorded ON recorded.task_id = fenced.id
)
SELECT EXISTS (SELECT FROM fenced) AS passed,
       NOT EXISTS (SELECT FROM free)
         AND EXISTS (SELECT FROM regente.tasks WHERE id = %(task_id)s) AS locked

-- name: log_event
INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
VALUES (%(task_id)s, %(batch_id)s, %(runner_id)s, %(attempt)s, %(event)s, %(details)s::jsonb)
