-- Children of a task: the batch that belongs to one of its steps.

-- name: children_of_step
SELECT id, parent_call FROM regente.batches
WHERE parent_id = %(task_id)s AND parent_step = ANY (%(steps)s::text[])

-- name: open_children
-- In the transaction that stores the children and passes the parent's fence.
INSERT INTO regente.batches (name, stall_after, parent_id, parent_step, parent_call, wake_after,
                             depth, status, total)
SELECT %(name)s, make_interval(secs => %(stall_after_seconds)s::double precision), %(task_id)s,
       %(step)s, %(call)s, %(first)s::bigint,
       1 + coalesce((SELECT b.depth FROM regente.tasks t JOIN regente.batches b ON b.id = t.batch_id
                     WHERE t.id = %(task_id)s), 0), 'running', 0
RETURNING id, depth

-- name: log_spawned
INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
VALUES (%(task_id)s, %(batch_id)s, %(runner_id)s, %(attempt)s, 'task_spawned',
        jsonb_build_object('step', %(step)s::text, 'children', %(children)s::bigint,
                           'pipeline', %(pipeline)s::text,
                           'children_batch', %(children_batch)s::bigint))

-- name: await_children
-- Whether the children are done. If not, the attempt is about to wait for them; what ends meanwhile
-- is found when it does (regente.waits_until). No row: the attempt has lost its task.
WITH fenced AS (
  UPDATE regente.tasks t SET heartbeat_at = regente.clock()
  WHERE t.id = %(task_id)s AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
    AND (SELECT set_config('lock_timeout', '200ms', true)) IS NOT NULL
  RETURNING t.id, t.attempt
),
waiting AS (
  INSERT INTO regente.waits AS w (task_id, attempt, step, batch_id)
  SELECT id, attempt, %(step)s, %(batch_id)s FROM fenced
  ON CONFLICT (task_id, step) DO UPDATE SET attempt = excluded.attempt
  RETURNING w.batch_id
)
SELECT regente.children_are_done(batch_id) FROM waiting

-- name: results_of_children
-- The first that completed, or all, in the order in which they were spawned.
SELECT t.id, t.status::text AS status, t.result, t.error_code, t.error_message
FROM (SELECT * FROM regente.tasks t
      WHERE t.batch_id = %(batch_id)s AND (%(first)s::bigint IS NULL OR t.status = 'completed')
      ORDER BY CASE WHEN %(first)s::bigint IS NOT NULL THEN t.finished_at END, t.id
      LIMIT %(first)s::bigint) AS t
ORDER BY t.id

-- name: record_children
-- The parent's step, and the end of its wait.
WITH fenced AS (
  UPDATE regente.tasks t SET heartbeat_at = regente.clock(), checkpoint = %(step)s
  WHERE t.id = %(task_id)s AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
    AND (SELECT set_config('lock_timeout', '200ms', true)) IS NOT NULL
  RETURNING t.id, t.attempt, t.batch_id
),
recorded AS (
  INSERT INTO regente.steps (task_id, name, attempt, output, call)
  SELECT id, %(step)s, attempt, %(output)s::json, %(call)s FROM fenced
  ON CONFLICT DO NOTHING RETURNING task_id
),
over AS (
  DELETE FROM regente.waits w USING fenced WHERE w.task_id = fenced.id AND w.step = %(step)s
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT fenced.id, fenced.batch_id, %(runner_id)s::bigint, fenced.attempt, 'step_completed',
         jsonb_build_object('step', %(step)s::text)
  FROM fenced JOIN recorded ON recorded.task_id = fenced.id
)
SELECT id FROM fenced

-- name: wake_parents
SELECT regente.wake_parents(%(batches)s::bigint[])

-- name: cancel_children
SELECT regente.cancel_children(%(parents)s::bigint[])

-- name: cancel_orphans
-- Children whose parent was canceled on a way that did not ask for theirs.
SELECT regente.cancel_children(array_agg(DISTINCT b.parent_id))
FROM regente.batches b JOIN regente.tasks t ON t.id = b.parent_id
WHERE b.status < 'completed' AND b.parent_id IS NOT NULL AND t.status = 'canceled'
HAVING count(*) > 0
