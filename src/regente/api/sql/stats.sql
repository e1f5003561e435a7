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
-- The queue is counted in its index alone. Held tasks wait since they were queued, others since
-- they are due.
WITH waiting AS (
  SELECT t.pipeline, count(*) AS queued, count(*) FILTER (WHERE t.run_at <= regente.clock()) AS due,
         min(t.run_at) AS since
  FROM regente.tasks t WHERE t.status = 'queued' AND (%(pipeline)s::text IS NULL
                                                      OR t.pipeline = %(pipeline)s)
                                                      GROUP BY t.pipeline
),
active AS (
  SELECT t.pipeline, count(*) AS running, count(*)
      FILTER (WHERE t.heartbeat_at < regente.clock() - interval '10 minutes') AS stuck
  FROM regente.tasks t WHERE t.status = 'running' AND (%(pipeline)s::text IS NULL
                                                       OR t.pipeline = %(pipeline)s)
                                                       GROUP BY t.pipeline
),
missions AS (SELECT min(t.queued_at) AS since FROM regente.tasks t WHERE t.pipeline = 'missions'
             AND t.status = 'queued')
SELECT pipeline, coalesce(w.queued, 0) AS queued, coalesce(w.due, 0) AS due,
       coalesce(a.running, 0) AS running,
       coalesce(a.stuck, 0) AS stuck, extract(epoch
                                              FROM greatest(interval '0',
                                                            regente.clock() - CASE pipeline
         WHEN 'missions' THEN (SELECT since FROM missions)
             ELSE w.since END))::double precision AS oldest_waiting_seconds
FROM waiting w FULL JOIN active a USING (pipeline)
WHERE NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = pipeline AND p.endless)
ORDER BY pipeline

-- name: stats_phases
SELECT phase, count(*) AS count, percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95_ms
FROM (
  SELECT CASE e.event WHEN 'session_ready' THEN 'session' WHEN 'scrape_completed' THEN 'scrape'
      WHEN 'writer_completed' THEN 'writer'
                      WHEN 'mission_assigned' THEN 'queue' ELSE 'total' END AS phase,
         CASE e.event WHEN 'mission_assigned' THEN extract(epoch FROM e.at - t.queued_at) * 1000
                      WHEN 'task_completed'
                          THEN (t.result ->> 'total_duration_ms')::double precision
                      ELSE (e.details ->> 'duration_ms')::double precision END AS ms
  FROM regente.events e
  LEFT JOIN regente.tasks t ON t.id = e.task_id AND t.pipeline = 'missions'
      AND e.event IN ('mission_assigned', 'task_completed')
  WHERE e.at > regente.clock() - make_interval(secs => %(window_seconds)s::double precision)
    AND e.event IN ('session_ready', 'mission_assigned', 'scrape_completed', 'writer_completed',
                    'task_completed')) AS d
WHERE ms >= 0 GROUP BY phase

-- name: stats_errors
SELECT pipeline, error_code AS code, count(*) AS tasks, max(finished_at) AS last_at
FROM (SELECT pipeline, error_code, finished_at FROM regente.tasks
      WHERE status = 'failed' AND (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
      LIMIT 100000) AS d
GROUP BY pipeline, error_code ORDER BY tasks DESC, code LIMIT 10

-- name: stats_health
SELECT (SELECT jsonb_object_agg(s.status, s.count) FROM (
          SELECT w.status::text AS status, count(*) FROM regente.workers w WHERE w.active
          GROUP BY w.status) AS s) AS workers,
       (SELECT count(*) FROM regente.workers WHERE NOT active) AS inactive_workers,
       (SELECT count(*) FROM regente.proxies WHERE active) AS active_proxies,
       (SELECT count(*) FROM regente.proxies WHERE active AND in_use_by_worker_id IS NOT NULL)
           AS proxies_in_use,
       (SELECT count(*) FROM regente.proxies WHERE active AND fail_count > 0) AS failing_proxies,
       (SELECT count(*) FROM regente.proxies WHERE NOT active) AS inactive_proxies,
       (SELECT count(*) FROM regente.writers WHERE active) AS active_writers,
       EXISTS (SELECT FROM regente.settings WHERE key = 'proxy_breaker') AS breaker,
       (SELECT count(*) FROM regente.runners WHERE status = 'running'
        AND lease_until > regente.clock()) AS runners,
       (SELECT count(*) FROM regente.runners WHERE status = 'lost'
        AND stopped_at > regente.clock() - interval '1 hour') AS lost_runners,
       (SELECT count(*) FROM regente.batches WHERE status = 'stalled') AS stalled_batches,
       (SELECT count(*) FROM (SELECT FROM regente.tasks WHERE status = 'failed' LIMIT 100000) AS d)
           AS dead_letters,
       EXISTS (SELECT FROM regente.mission_runs r JOIN regente.tasks t ON t.id = r.mission_id
               WHERE t.pipeline = 'missions' AND t.status IN ('queued', 'running')
                 AND r.checkpoint = 'armazenamento') AS storing,
       EXISTS (SELECT FROM regente.tasks t WHERE t.pipeline = 'missions' AND t.status = 'queued')
           AS missions_wait,
       regente.clock() AS now
