-- What became of a batch's tasks.

-- name: batch_errors
SELECT error_code AS code, count(*) AS tasks FROM regente.tasks
WHERE batch_id = %(batch_id)s AND status = 'failed' GROUP BY error_code ORDER BY tasks DESC
LIMIT 100

-- name: batch_last
-- The task that ended last.
SELECT id, key, finished_at FROM regente.tasks
WHERE batch_id = %(batch_id)s AND status >= 'completed' ORDER BY finished_at DESC, id DESC LIMIT 1

-- name: batch_heartbeat
SELECT greatest(b.progress_at, (SELECT max(t.heartbeat_at) FROM regente.tasks t
                                WHERE t.batch_id = b.id)) AS at
FROM regente.batches b WHERE b.id = %(batch_id)s

-- name: batch_failed_items
-- The items that failed for good, each with its last failed attempt.
SELECT t.id, t.key, t.attempt, t.tries, t.error_code AS code, t.error_message AS message, f.stack,
       f.step, f.fingerprint,
       coalesce(f.at, t.finished_at) AS at
FROM regente.tasks t LEFT JOIN LATERAL (
  SELECT f.stack, f.step, f.fingerprint, f.at FROM regente.failures f
  WHERE f.task_id = t.id ORDER BY f.id DESC LIMIT 1) AS f ON true
WHERE t.batch_id = %(batch_id)s AND t.status = 'failed'
  AND (%(before_id)s::bigint IS NULL OR t.id < %(before_id)s)
ORDER BY t.id DESC LIMIT %(limit)s
