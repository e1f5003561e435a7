-- What missions add to the API's overview, charts, event log and metrics. Metrics read live states
-- only, by partial indexes, and counts that stop at a cap.

-- name: health
SELECT (SELECT jsonb_object_agg(s.status, s.count) FROM (
          SELECT w.status::text AS status, count(*) FROM regente.workers w WHERE w.active
          GROUP BY w.status) AS s) AS workers,
       (SELECT count(*) FROM regente.workers WHERE NOT active AND removed_at IS NULL)
           AS inactive_workers,
       (SELECT count(*) FROM regente.proxies WHERE active) AS active_proxies,
       (SELECT count(*) FROM regente.proxies WHERE active AND in_use_by_worker_id IS NOT NULL)
           AS proxies_in_use,
       (SELECT count(*) FROM regente.proxies WHERE active AND fail_count > 0) AS failing_proxies,
       (SELECT count(*) FROM regente.proxies WHERE NOT active AND removed_at IS NULL)
           AS inactive_proxies,
       (SELECT count(*) FROM regente.writers WHERE active) AS active_writers,
       (SELECT count(*) FROM regente.writers
        WHERE active AND (failures > 0 OR failed_jobs > 0)) AS failing_writers,
       EXISTS (SELECT FROM regente.settings WHERE key = 'proxy_breaker') AS breaker,
       EXISTS (SELECT FROM regente.mission_runs r JOIN regente.tasks t ON t.id = r.mission_id
               WHERE t.pipeline = 'missions' AND t.status IN ('queued', 'running')
                 AND r.checkpoint = 'armazenamento') AS storing,
       EXISTS (SELECT FROM regente.tasks t WHERE t.pipeline = 'missions' AND t.status = 'queued')
           AS missions_wait

-- name: oldest_waiting
-- A mission is held until a worker takes it: it waits since it was queued.
SELECT extract(epoch FROM greatest(interval '0', regente.clock() - t.queued_at))::double precision
    AS seconds
FROM regente.tasks t WHERE t.pipeline = 'missions' AND t.status = 'queued'
ORDER BY t.queued_at, t.id LIMIT 1

-- name: phases
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

-- name: sessions
SELECT date_bin(make_interval(secs => %(bucket_seconds)s::double precision), e.at,
                '2000-01-01'::timestamptz) AS at,
       count(*) FILTER (WHERE e.event = 'session_ready') AS good,
       count(*) FILTER (WHERE e.event = 'session_failed') AS failed
FROM regente.events e
WHERE e.at > regente.clock() - make_interval(secs => %(window_seconds)s::double precision)
  AND e.event IN ('session_ready', 'session_failed')
GROUP BY 1 ORDER BY 1

-- name: running
-- By checkpoint; only missions end and can be stuck.
SELECT 'missions' AS pipeline, o.checkpoint, count(*) AS tasks,
       count(*) FILTER (WHERE o.stuck) AS stuck
FROM (
  SELECT coalesce((SELECT r.checkpoint::text FROM regente.mission_runs r WHERE r.mission_id = t.id),
                  t.checkpoint, 'INIT') AS checkpoint,
         t.heartbeat_at < regente.clock() - coalesce(p.stall_after, '10 minutes') AS stuck
  FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline
  WHERE t.pipeline = 'missions' AND t.status = 'running') AS o
GROUP BY o.checkpoint ORDER BY count(*) DESC

-- name: checkpoints
SELECT mission_id AS id, checkpoint::text AS checkpoint FROM regente.mission_runs
WHERE mission_id = ANY (%(ids)s::bigint[])

-- name: missions_among
SELECT mission_id AS id FROM regente.mission_runs WHERE mission_id = ANY (%(ids)s::bigint[])

-- name: scope_of_mission
-- The mission's task, the drivers of its sessions, and the sessions.
SELECT array(SELECT DISTINCT s.driver_id FROM regente.mission_sessions m
             JOIN regente.sessions s ON s.id = m.session_id
             WHERE m.mission_id = %(mission_id)s) AS drivers,
       array(SELECT m.session_id::text FROM regente.mission_sessions m
             WHERE m.mission_id = %(mission_id)s) AS sessions

-- name: tasks_of_worker
-- The worker's drivers and its missions.
WITH recent AS (SELECT id, driver_id FROM regente.sessions WHERE worker_id = %(worker_id)s
                ORDER BY id DESC LIMIT 2000)
SELECT driver_id AS id FROM recent
UNION SELECT m.mission_id FROM recent JOIN regente.mission_sessions m ON m.session_id = recent.id

-- name: fleet
SELECT
  (SELECT coalesce(jsonb_agg(w), '[]') FROM (
     SELECT status::text AS status, active, count(*) AS workers FROM regente.workers
     WHERE removed_at IS NULL GROUP BY status, active) AS w) AS workers,
  (SELECT coalesce(jsonb_agg(p), '[]') FROM (
     SELECT name, active, in_use_by_worker_id IS NOT NULL AS in_use, fail_count
     FROM regente.proxies WHERE removed_at IS NULL
     ORDER BY fail_count DESC, name LIMIT 1000) AS p)
    AS proxies,
  (SELECT state FROM regente.orchestrator) AS orchestrator,
  EXISTS (SELECT FROM regente.settings WHERE key = 'proxy_breaker') AS breaker

-- name: missions_by_checkpoint
-- Running missions with their checkpoint; the count of the others, up to the cap.
SELECT s.status, s.checkpoint, count(*) AS missions
FROM (
  (SELECT 'running' AS status, (SELECT r.checkpoint::text FROM regente.mission_runs r
                                WHERE r.mission_id = t.id) AS checkpoint
   FROM regente.tasks t WHERE t.pipeline = 'missions' AND t.status = 'running' LIMIT %(cap)s)
  UNION ALL
  (SELECT 'queued', (SELECT r.checkpoint::text FROM regente.mission_runs r
                     WHERE r.mission_id = t.id)
   FROM regente.tasks t WHERE t.pipeline = 'missions' AND t.status = 'queued'
   ORDER BY t.queued_at, t.id LIMIT %(cap)s)
) AS s GROUP BY s.status, s.checkpoint
UNION ALL
SELECT s.status::text, CASE s.status WHEN 'completed' THEN 'finalizado' ELSE '' END,
       (SELECT count(*) FROM (SELECT FROM regente.tasks t WHERE t.pipeline = 'missions'
                              AND t.status = s.status LIMIT %(cap)s) AS c)
FROM unnest('{draft,completed,failed,canceled}'::regente.task_status[]) AS s (status)
