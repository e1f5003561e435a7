-- name: one_runner
SELECT r.id, r.name, r.host, r.pid, r.version, r.status::text AS status, r.pipelines, r.concurrency,
       r.started_at,
       r.heartbeat_at, r.lease_until, r.stopped_at, r.claimed, r.completed, r.failed, r.retried,
       r.recovered, r.handed_back,
       r.busy_seconds, r.status < 'stopped' AND r.lease_until > regente.clock() AS alive,
       (SELECT count(*) FROM regente.tasks t WHERE t.runner_id = r.id AND t.status = 'running')
           AS running,
       (SELECT count(*) FROM regente.tasks t JOIN regente.pipelines p ON p.name = t.pipeline
        WHERE t.runner_id = r.id AND t.status = 'running'
          AND t.heartbeat_at < regente.clock() - p.stall_after) AS stuck
FROM regente.runners r WHERE r.id = %(id)s
