-- The fleet without its secrets.

-- name: list_workers
SELECT w.id, w.name, w.active, w.last_test_at, w.last_test_ok, w.last_test_message, w.created_at,
       w.url, w.storage_domain,
       w.status::text AS status, w.session_count, w.current_mission_id, p.name AS proxy, w.failures,
       CASE WHEN w.rest_until > regente.clock() THEN w.rest_until END AS rest_until, w.error_code,
       w.error_message,
       t.heartbeat_at AS progress_at, coalesce(s.sessions, 0) AS sessions,
       coalesce(s.good, 0) AS good_sessions,
       coalesce(s.missions, 0) AS missions
FROM regente.workers w
LEFT JOIN regente.proxies p ON p.in_use_by_worker_id = w.id
LEFT JOIN regente.tasks t ON t.id = w.current_mission_id
LEFT JOIN LATERAL (
  SELECT count(*) AS sessions, count(*) FILTER (WHERE s.ready_at IS NOT NULL) AS good,
         sum(s.missions) AS missions
  FROM regente.sessions s WHERE s.worker_id = w.id
      AND s.started_at > regente.clock() - interval '7 days') AS s ON true
WHERE %(id)s::text IS NULL OR w.id = %(id)s ORDER BY w.name

-- name: list_proxies
SELECT p.id, p.name, p.active, p.last_test_at, p.last_test_ok, p.last_test_message, p.created_at,
       p.host, p.port, p.username,
       p.password IS NOT NULL AS has_password,
       CASE WHEN NOT p.active THEN 'inactive' WHEN p.in_use_by_worker_id IS NULL THEN 'free'
            ELSE 'in use' END AS status,
       w.name AS worker, p.fail_count, p.last_used_at, p.last_failed_at, p.last_failure,
       coalesce(s.sessions, 0) AS sessions,
       coalesce(s.good, 0) AS good_sessions
FROM regente.proxies p
LEFT JOIN regente.workers w ON w.id = p.in_use_by_worker_id
LEFT JOIN (
  SELECT proxy_id, count(*) AS sessions, count(*) FILTER (WHERE ready_at IS NOT NULL) AS good
  FROM regente.sessions WHERE started_at > regente.clock() - interval '7 days'
  GROUP BY proxy_id) AS s ON s.proxy_id = p.id
WHERE %(id)s::text IS NULL OR p.id = %(id)s ORDER BY p.name

-- name: list_writers
SELECT w.id, w.name, w.active, w.last_test_at, w.last_test_ok, w.last_test_message, w.created_at,
       w.url
FROM regente.writers w WHERE %(id)s::text IS NULL OR w.id = %(id)s ORDER BY w.name
