-- What tasks in flight have recorded, to be replayed against other code. Reads only.

-- name: tasks_in_flight
-- Begun and not ended, the oldest first: those that run, and those that were running before.
WITH begun AS (
  SELECT t.id FROM regente.tasks t
  WHERE t.pipeline = ANY (%(pipelines)s::text[]) AND t.status = 'queued'
    AND t.started_at IS NOT NULL
  UNION ALL
  SELECT t.id FROM regente.tasks t
  WHERE t.status = 'running' AND t.pipeline = ANY (%(pipelines)s::text[])
)
SELECT id FROM begun ORDER BY id LIMIT %(limit)s

-- name: count_in_flight
SELECT begun.pipeline, count(*) FROM (
  SELECT t.pipeline FROM regente.tasks t
  WHERE t.status = 'queued' AND t.started_at IS NOT NULL
  UNION ALL
  SELECT t.pipeline FROM regente.tasks t WHERE t.status = 'running') AS begun
GROUP BY begun.pipeline ORDER BY begun.pipeline

-- name: claims_to_replay
-- As the next attempt would get them.
SELECT id, pipeline, attempt + 1, tries, crashes, max_attempts, batch_id, args::text,
       (extract(epoch FROM created_at) * 1000000)::bigint AS born_us, priority
FROM regente.tasks WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id

-- name: steps_to_replay
SELECT task_id, name, item, output::text, call FROM regente.steps
WHERE task_id = ANY (%(ids)s::bigint[])

-- name: children_to_replay
SELECT parent_id, parent_step, id, parent_call FROM regente.batches
WHERE parent_id = ANY (%(ids)s::bigint[])

-- name: intents_to_replay
-- As `recall_intents` returns them.
SELECT task_id, name, item, attempt, called_at, call, decision, result::text FROM regente.intents
WHERE task_id = ANY (%(ids)s::bigint[])
