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
