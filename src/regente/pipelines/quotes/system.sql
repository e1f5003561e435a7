-- The specification's processing: quotes by their state, and, when asked for, running tasks of
-- other pipelines.

-- name: processing
-- Of the `others`, built-ins tell the checkpoints.
SELECT 'quotes' AS pipeline, coalesce(q.processing_checkpoint, 'INIT') AS checkpoint,
       q.last_heartbeat, q.id
FROM regente.quote_requests q
WHERE q.status = 'PROCESSING' AND %(pipeline)s::text IN ('quotes', 'all')
UNION ALL
SELECT t.pipeline, coalesce(t.checkpoint, 'INIT'), t.heartbeat_at, t.id
FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline
WHERE t.status = 'running' AND NOT coalesce(p.endless, false) AND t.pipeline <> 'quotes'
  AND %(pipeline)s::text IN (t.pipeline, 'all')

-- name: stuck_since
-- The heartbeat of what is stuck is older than this.
SELECT regente.clock() - make_interval(secs => %(stuck_seconds)s::double precision)

-- name: processing_stats
WITH processing AS (
-- include: processing
)
SELECT count(*) AS total_processing,
       count(*) FILTER (WHERE p.last_heartbeat < (
-- include: stuck_since
       )) AS stuck_count,
       coalesce((SELECT jsonb_object_agg(c.checkpoint, c.count)
                 FROM (SELECT checkpoint, count(*) FROM processing
                       WHERE pipeline <> ALL (%(others)s::text[]) GROUP BY checkpoint) AS c),
                '{}') AS by_checkpoint
FROM processing p

-- name: stuck
SELECT p.id, p.pipeline, t.checkpoint AS processing_checkpoint, p.last_heartbeat,
       r.name AS worker_id, t.attempt AS attempt_number, t.started_at, t.batch_id
FROM (
-- include: processing
) AS p
JOIN regente.tasks t ON t.id = p.id LEFT JOIN regente.runners r ON r.id = t.runner_id
WHERE p.last_heartbeat < (
-- include: stuck_since
)
ORDER BY p.last_heartbeat LIMIT %(limit)s

-- name: average_seconds
-- Of the latest completions: among the last events of all tasks, within a day.
WITH recent AS MATERIALIZED (
  SELECT e.task_id, e.event, e.at FROM regente.events e ORDER BY e.txid DESC, e.id DESC
  LIMIT %(events)s)
SELECT avg(regente.quote_processing_seconds(e.task_id)) AS seconds
FROM recent e CROSS JOIN LATERAL (
  SELECT FROM regente.tasks t
  WHERE t.id = e.task_id AND t.status = 'completed'
    AND %(pipeline)s::text IN (t.pipeline, 'all') OFFSET 0) AS t
WHERE e.event = 'task_completed' AND e.at > regente.clock() - interval '1 day'

-- name: pending
SELECT count(*) AS quotes FROM (
  SELECT FROM regente.tasks t WHERE t.pipeline = 'quotes' AND t.status = 'queued'
    AND t.started_at IS NULL LIMIT %(cap)s) AS c

-- name: between_attempts
-- How many of a batch's quotes are being processed and wait for another attempt.
SELECT count(*) AS quotes FROM regente.tasks t
WHERE t.batch_id = %(batch_id)s AND t.status = 'queued' AND t.pipeline = 'quotes'
  AND regente.quote_status(t.status, t.attempt) = 'PROCESSING'

-- name: has_others_only
-- Whether a batch has tasks, and none of them is a quote.
SELECT b.total > 0
  AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.batch_id = b.id AND t.pipeline = 'quotes')
  AND NOT EXISTS (SELECT FROM regente.quotes q WHERE q.batch_id = b.id) AS others_only
FROM regente.batches b WHERE b.id = %(batch_id)s

-- name: resume_data
SELECT regente.quote_resume_data(%(id)s) AS resume_data
