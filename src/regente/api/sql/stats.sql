-- Statistics of the overview, of a time window or of the current state.

-- name: stats_throughput
SELECT date_bin(make_interval(secs => %(bucket_seconds)s::double precision), e.at,
                '2000-01-01'::timestamptz) AS at,
       CASE e.event WHEN 'task_completed' THEN 'completed' WHEN 'task_failed' THEN 'failed'
            WHEN 'task_canceled' THEN 'canceled'
                    WHEN 'task_skipped' THEN 'skipped' ELSE 'retried' END AS outcome,
       count(*) AS count
FROM regente.events e
WHERE e.at > regente.clock() - make_interval(secs => %(window_seconds)s::double precision)
  AND e.event IN ('task_completed', 'task_failed', 'task_canceled', 'task_skipped', 'task_retried')
  AND (%(pipeline)s::text IS NULL OR EXISTS (SELECT FROM regente.tasks t
                                             WHERE t.id = e.task_id AND t.pipeline = %(pipeline)s))
GROUP BY 1, 2 ORDER BY 1, 2

-- name: stats_queues
-- The queue is counted in its index alone. Tasks wait since they are due; of pipelines whose tasks
-- are held, the built-in tells it.
WITH waiting AS (
  SELECT k.pipeline, sum(k.queued)::bigint AS queued, sum(k.due)::bigint AS due,
         min(k.since) AS since
  FROM (
    SELECT t.pipeline, count(*) AS queued,
           count(*) FILTER (WHERE t.run_at <= regente.clock()) AS due, min(t.run_at) AS since
    FROM regente.tasks t
    WHERE t.status = 'queued' AND t.run_at <> regente.in_lane()
      AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
    GROUP BY t.pipeline
    UNION ALL
    SELECT t.pipeline, count(*), count(*) FILTER (WHERE t.lane_run_at <= regente.clock()),
           min(t.lane_run_at)
    FROM regente.tasks t
    WHERE t.status = 'queued' AND t.lane IS NOT NULL
      AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
    GROUP BY t.pipeline) AS k
  GROUP BY k.pipeline
),
active AS (
  SELECT t.pipeline, count(*) AS running, count(*)
      FILTER (WHERE t.heartbeat_at < regente.clock() - interval '10 minutes') AS stuck
  FROM regente.tasks t
  WHERE t.status = 'running' AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
  GROUP BY t.pipeline
)
SELECT pipeline, coalesce(w.queued, 0) AS queued, coalesce(w.due, 0) AS due,
       coalesce(a.running, 0) AS running, coalesce(a.stuck, 0) AS stuck,
       extract(epoch FROM greatest(interval '0', regente.clock() - w.since))::double precision
           AS oldest_waiting_seconds
FROM waiting w FULL JOIN active a USING (pipeline)
WHERE NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = pipeline AND p.endless)
ORDER BY pipeline

-- name: stats_errors
SELECT pipeline, error_code AS code, count(*) AS tasks, max(finished_at) AS last_at
FROM (SELECT pipeline, error_code, finished_at FROM regente.tasks
      WHERE status = 'failed' AND (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
      LIMIT 100000) AS d
GROUP BY pipeline, error_code ORDER BY tasks DESC, code LIMIT 10

-- name: stats_health
SELECT (SELECT count(*) FROM regente.runners WHERE status = 'running'
        AND lease_until > regente.clock()) AS runners,
       (SELECT count(*) FROM regente.runners WHERE status = 'lost'
        AND stopped_at > regente.clock() - interval '1 hour') AS lost_runners,
       (SELECT count(*) FROM regente.batches WHERE status = 'stalled') AS stalled_batches,
       (SELECT count(*) FROM (SELECT FROM regente.tasks WHERE status = 'failed' LIMIT 100000) AS d)
           AS dead_letters,
       regente.clock() AS now
