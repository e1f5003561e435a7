-- Lists of batches.

-- name: list_batches
SELECT b.id, b.name, b.status::text AS status, b.total, b.resumes, b.max_resumes,
       extract(epoch FROM b.stall_after)::double precision AS stall_after_seconds, b.created_at,
       b.progress_at, b.finished_at,
       b.details, c.draft, c.queued, c.running, c.completed, c.failed, c.canceled, c.skipped,
       CASE WHEN c.finished > 0 AND c.finished < b.total AND b.status < 'completed'
            THEN extract(epoch FROM regente.clock() - b.created_at)::double precision
                 / c.finished * (b.total - c.finished)
       END AS eta_seconds, (SELECT t.pipeline FROM regente.tasks t WHERE t.batch_id = b.id LIMIT 1)
           AS pipeline
FROM (SELECT * FROM regente.batches b
      WHERE (%(before_id)s::bigint IS NULL OR b.id < %(before_id)s)
        AND (%(statuses)s::regente.batch_status[] IS NULL
             OR b.status = ANY (%(statuses)s::regente.batch_status[]))
      ORDER BY b.id DESC LIMIT %(limit)s) AS b
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE t.status = 'draft') AS draft,
         count(*) FILTER (WHERE t.status = 'queued') AS queued,
         count(*) FILTER (WHERE t.status = 'running') AS running,
         count(*) FILTER (WHERE t.status = 'completed') AS completed,
         count(*) FILTER (WHERE t.status = 'failed') AS failed,
         count(*) FILTER (WHERE t.status = 'canceled') AS canceled,
         count(*) FILTER (WHERE t.status = 'skipped') AS skipped,
         count(*) FILTER (WHERE t.status >= 'completed') AS finished
  FROM regente.tasks t WHERE t.batch_id = b.id) AS c
ORDER BY b.id DESC

-- name: batch_pipeline
SELECT pipeline FROM regente.tasks WHERE batch_id = %(batch_id)s LIMIT 1

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
