-- Calls whose outcome must not be guessed: intents before the call, and what people decide. The
-- statements of attempts do not wait for a row that another session has locked.

-- name: record_intent
WITH free AS MATERIALIZED (
  SELECT id FROM regente.tasks WHERE id = %(task_id)s FOR UPDATE SKIP LOCKED
),
fenced AS (
  UPDATE regente.tasks t SET heartbeat_at = regente.clock()
  FROM free
  WHERE t.id = free.id AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
  RETURNING t.id, t.attempt
),
recorded AS (
  INSERT INTO regente.intents AS i (task_id, name, item, attempt, call)
  SELECT id, %(step)s, %(item)s, attempt, %(call)s FROM fenced
  ON CONFLICT (task_id, name, item) DO UPDATE
  SET attempt = excluded.attempt, called_at = excluded.called_at, call = excluded.call,
      asked_at = NULL, decision = NULL, result = NULL
  RETURNING called_at
)
SELECT (SELECT called_at FROM recorded) AS called_at,
       NOT EXISTS (SELECT FROM free)
         AND EXISTS (SELECT FROM regente.tasks WHERE id = %(task_id)s) AS locked

-- name: recall_intents
SELECT name, item, attempt, called_at, call, decision, result::text FROM regente.intents
WHERE task_id = %(task_id)s

-- name: forget_intent
-- The call has failed for certain, or was not made.
WITH free AS MATERIALIZED (
  SELECT id FROM regente.tasks WHERE id = %(task_id)s FOR UPDATE SKIP LOCKED
),
fenced AS (
  UPDATE regente.tasks t SET heartbeat_at = regente.clock()
  FROM free
  WHERE t.id = free.id AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
  RETURNING t.id
),
forgotten AS (
  DELETE FROM regente.intents i USING fenced
  WHERE i.task_id = fenced.id AND i.name = %(step)s AND i.item = %(item)s
)
SELECT EXISTS (SELECT FROM fenced) AS passed,
       NOT EXISTS (SELECT FROM free)
         AND EXISTS (SELECT FROM regente.tasks WHERE id = %(task_id)s) AS locked

-- name: ask_about_intents
-- Put a call before a person, with all others of earlier attempts that have no result.
WITH free AS MATERIALIZED (
  SELECT id FROM regente.tasks WHERE id = %(task_id)s FOR UPDATE SKIP LOCKED
),
fenced AS (
  UPDATE regente.tasks t SET heartbeat_at = regente.clock()
  FROM free
  WHERE t.id = free.id AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
  RETURNING t.id, t.attempt
),
asked AS (
  UPDATE regente.intents i SET asked_at = regente.clock(), decision = NULL, result = NULL
  FROM fenced
  WHERE i.task_id = fenced.id
    AND ((i.name = %(step)s AND i.item = %(item)s)
         OR (i.attempt < fenced.attempt AND i.decision IS NULL
             AND NOT EXISTS (SELECT FROM regente.steps s WHERE s.task_id = i.task_id
                             AND s.name = i.name AND s.item = i.item)))
  RETURNING i.task_id
)
SELECT EXISTS (SELECT FROM fenced) AS passed,
       NOT EXISTS (SELECT FROM free)
         AND EXISTS (SELECT FROM regente.tasks WHERE id = %(task_id)s) AS locked

-- name: decisions
SELECT t.id AS task_id, t.pipeline, t.batch_id, i.name AS step, nullif(i.item, -1) AS item,
       i.attempt, i.called_at, i.asked_at
FROM regente.intents i JOIN regente.tasks t ON t.id = i.task_id
WHERE i.asked_at IS NOT NULL AND i.decision IS NULL
  AND t.status = 'queued' AND regente.is_held(coalesce(t.lane_run_at, t.run_at))
  AND (%(task_id)s::bigint IS NULL OR i.task_id = %(task_id)s)
  AND NOT EXISTS (SELECT FROM regente.steps s
                  WHERE s.task_id = i.task_id AND s.name = i.name AND s.item = i.item)
ORDER BY i.asked_at, i.task_id, i.name, i.item LIMIT %(limit)s

-- name: resolve
-- Only the first of two decisions counts. The task is due when nothing more has to be decided.
WITH task AS MATERIALIZED (
  SELECT t.id, t.pipeline, t.priority, t.batch_id, t.attempt, t.lane FROM regente.tasks t
  WHERE t.id = %(task_id)s AND t.status = 'queued'
    AND regente.is_held(coalesce(t.lane_run_at, t.run_at)) FOR UPDATE
),
decided AS (
  UPDATE regente.intents i SET decision = %(decision)s, result = %(result)s::json
  FROM task
  WHERE i.task_id = task.id AND i.name = %(step)s AND i.item = %(item)s
    AND i.asked_at IS NOT NULL AND i.decision IS NULL
  RETURNING i.task_id
),
released AS (
  UPDATE regente.tasks t
  SET run_at = CASE WHEN t.lane IS NULL THEN regente.clock() ELSE t.run_at END,
      lane_run_at = CASE WHEN t.lane IS NOT NULL THEN regente.clock() END
  FROM decided
  WHERE t.id = decided.task_id
    AND NOT EXISTS (SELECT FROM regente.intents i
                    WHERE i.task_id = t.id AND (i.name <> %(step)s OR i.item <> %(item)s)
                      AND i.asked_at IS NOT NULL AND i.decision IS NULL
                      AND NOT EXISTS (SELECT FROM regente.steps s WHERE s.task_id = i.task_id
                                      AND s.name = i.name AND s.item = i.item))
  RETURNING t.id, coalesce(t.lane_run_at, t.run_at) AS run_at
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, attempt, event, details)
  SELECT task.id, task.batch_id, task.attempt, 'task_resolved',
         jsonb_build_object('step', %(step)s::text, 'item', nullif(%(item)s::integer, -1),
                            'decision', %(decision)s::text)
           || coalesce(%(details)s::jsonb, '{}')
  FROM task JOIN decided ON decided.task_id = task.id
)
SELECT task.id, task.pipeline, task.priority,
       extract(epoch FROM released.run_at)::double precision AS first, task.lane
FROM task JOIN decided ON decided.task_id = task.id LEFT JOIN released ON released.id = task.id
