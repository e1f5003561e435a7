-- The original specification's processing: running tasks of every pipeline whose tasks end.

-- name: processing_stats
WITH processing AS (
  SELECT coalesce(r.checkpoint::text, t.checkpoint, 'INIT') AS checkpoint,
         t.heartbeat_at < regente.clock()
             - make_interval(secs => %(stuck_seconds)s::double precision)
                                                          AS stuck
  FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline LEFT
  JOIN regente.mission_runs r ON r.mission_id = t.id
  WHERE t.status = 'running' AND NOT coalesce(p.endless, false)
    AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
),
done AS (
  SELECT extract(epoch FROM t.finished_at - t.started_at)::double precision AS seconds
  FROM (SELECT e.task_id FROM regente.events e
        WHERE e.event = 'task_completed' AND e.at > regente.clock() - interval '1 day'
        LIMIT 10000) AS e
  JOIN regente.tasks t ON t.id = e.task_id
  WHERE t.status = 'completed' AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
)
SELECT (SELECT count(*) FROM processing) AS total_processing, (SELECT count(*) FROM processing
                                                               WHERE stuck) AS stuck_count,
       coalesce((SELECT jsonb_object_agg(c.checkpoint, c.count)
                 FROM (SELECT checkpoint, count(*) FROM processing GROUP BY checkpoint) AS c),
                      '{}') AS by_checkpoint,
       coalesce(round((SELECT avg(seconds) FROM done)::numeric, 2), 0)::double precision
           AS avg_processing_time_seconds

-- name: stuck_tasks
SELECT t.id, t.pipeline, coalesce(r.checkpoint::text, t.checkpoint) AS processing_checkpoint,
       t.heartbeat_at AS last_heartbeat,
       a.name AS worker_id, t.attempt AS attempt_number, t.started_at, t.batch_id
FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline LEFT
JOIN regente.runners a ON a.id = t.runner_id
LEFT JOIN regente.mission_runs r ON r.mission_id = t.id
WHERE t.status = 'running' AND NOT coalesce(p.endless, false)
  AND t.heartbeat_at < regente.clock() - make_interval(secs => %(stuck_seconds)s::double precision)
  AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
ORDER BY t.heartbeat_at LIMIT %(limit)s
