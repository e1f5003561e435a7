-- Queries of the command line.

-- name: dead_by_code
SELECT t.pipeline, t.error_code AS code, count(*) AS tasks, min(t.finished_at) AS first_at,
       max(t.finished_at) AS last_at,
       max(t.id) AS newest_id
FROM regente.tasks t
WHERE t.status = 'failed' AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
  AND (%(code)s::text IS NULL OR t.error_code = %(code)s)
GROUP BY t.pipeline, t.error_code
ORDER BY tasks DESC, t.pipeline, t.error_code

-- name: feed_end
-- The newest position whose order is final.
SELECT e.txid::text || '-' || e.id || '-' || regente.timeline() AS position FROM regente.events e
WHERE e.txid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.txid DESC, e.id DESC LIMIT 1

-- name: recent_events
-- The newest events whose order is final, oldest first.
SELECT e.id, e.txid::text AS txid,
       e.txid::text || '-' || e.id || '-' || (SELECT regente.timeline()) AS position, e.at,
       e.task_id, e.batch_id, e.runner_id, e.attempt, e.event, e.details
FROM (SELECT * FROM regente.events
      WHERE txid < pg_snapshot_xmin(pg_current_snapshot())
        AND (%(task_id)s::bigint IS NULL OR task_id = %(task_id)s)
      ORDER BY txid DESC, id DESC LIMIT %(limit)s) AS e
ORDER BY e.txid, e.id
