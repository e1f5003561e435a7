-- The four reports of the original specification (10.3); the timeline is the mission's own.

-- name: failures_in_24_hours
SELECT m.id AS mission_id, m.status, m.error_code, m.error_message, m.retry_count,
       ml.timestamp AS failed_at, ml.details
FROM regente.missions m JOIN regente.mission_logs ml ON ml.mission_id = m.id
WHERE ml.event = 'mission_failed' AND ml.timestamp
    > regente.clock() - make_interval(hours => %(hours)s)
ORDER BY ml.timestamp DESC LIMIT %(limit)s

-- name: performance_per_worker
SELECT w.id AS worker_id, w.name AS worker_name,
       count(*) FILTER (WHERE ml.event = 'scrape_completed') AS completed_count,
       count(*) FILTER (WHERE ml.event = 'scrape_failed') AS failed_count,
       (avg((ml.details ->> 'duration_ms')::numeric)
        FILTER (WHERE ml.event = 'scrape_completed'))::double precision AS avg_duration_ms
FROM regente.workers w JOIN regente.missions m ON m.worker_id = w.id
JOIN regente.mission_logs ml ON ml.mission_id = m.id
WHERE ml.event IN ('scrape_completed', 'scrape_failed')
  AND ml.timestamp > regente.clock() - make_interval(days => %(days)s)
GROUP BY w.id, w.name ORDER BY completed_count DESC, w.name

-- name: problem_proxies
SELECT p.id AS proxy_id, p.name, p.host, p.fail_count, p.active,
       count(*) FILTER (WHERE ml.event = 'session_failed') AS session_failures,
       count(*) FILTER (WHERE ml.event = 'proxy_rotated') AS rotations
FROM regente.proxies p LEFT JOIN (
  -- The events themselves: the log shows those of a session with each of its missions. A rotation
  -- is the session's event; that of the mission repeats it.
  SELECT e.event, e.at, e.details ->> 'proxy_name' AS proxy_name
  FROM regente.events e
  WHERE e.event IN ('session_failed', 'proxy_rotated') AND e.details ? 'proxy_name'
    AND e.at > regente.clock() - make_interval(days => %(days)s)) AS ml
        ON ml.proxy_name = p.name AND ml.at >= p.created_at
            AND ml.at <= coalesce(p.removed_at, 'infinity')  -- its name may be another one's since
GROUP BY p.id, p.name, p.host, p.fail_count, p.active ORDER BY p.fail_count DESC,
    session_failures DESC, p.name
