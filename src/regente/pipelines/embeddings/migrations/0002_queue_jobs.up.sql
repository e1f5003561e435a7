-- The queue as the original specification names it: its table and columns, for the tasks of every
-- pipeline. The lock is the lease of the runner that holds the task.
CREATE VIEW regente.queue_jobs AS
SELECT t.id, t.pipeline AS type,
       CASE t.status WHEN 'running' THEN 'processing' WHEN 'completed' THEN 'completed'
            WHEN 'skipped' THEN 'completed' WHEN 'failed' THEN 'failed'
            WHEN 'canceled' THEN 'canceled' ELSE 'pending' END AS status,
       t.tries + t.crashes AS attempts, coalesce(t.max_attempts, p.max_attempts) AS max_attempts,
       r.name AS locked_by, l.claimed_at AS locked_at, r.lease_until AS lock_expires_at,
       CASE WHEN t.status = 'running' THEN greatest(t.heartbeat_at, r.heartbeat_at) END
           AS last_heartbeat_at,
       t.started_at AS processing_started_at, t.finished_at AS processed_at,
       t.created_at, t.run_at AS scheduled_for, t.error_message AS last_error
FROM regente.tasks t
LEFT JOIN regente.pipelines p ON p.name = t.pipeline
LEFT JOIN LATERAL (SELECT t.claimed_at WHERE t.status = 'running') AS l ON true
LEFT JOIN regente.runners r ON r.id = t.runner_id;
