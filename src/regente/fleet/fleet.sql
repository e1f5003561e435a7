-- The fleet's statements.

-- name: add_worker
INSERT INTO regente.workers (name, url, api_key, storage_domain)
    VALUES (%(name)s, %(url)s, %(api_key)s, %(storage_domain)s)
ON CONFLICT (name) DO NOTHING RETURNING id

-- name: add_proxy
INSERT INTO regente.proxies (name, host, port, username, password)
VALUES (%(name)s, %(host)s, %(port)s, %(username)s, %(password)s)
ON CONFLICT (name) DO NOTHING RETURNING id

-- name: add_writer
INSERT INTO regente.writers (name, url, api_key) VALUES (%(name)s, %(url)s, %(api_key)s)
ON CONFLICT (name) DO NOTHING RETURNING id

-- name: edit_worker
UPDATE regente.workers
SET name = coalesce(%(name)s, name), url = coalesce(%(url)s, url),
    api_key = coalesce(%(api_key)s, api_key),
    storage_domain = coalesce(%(storage_domain)s, storage_domain), updated_at = regente.clock()
WHERE id = %(id)s RETURNING id

-- name: edit_proxy
UPDATE regente.proxies
SET name = coalesce(%(name)s, name), host = coalesce(%(host)s, host),
    port = coalesce(%(port)s, port),
    username = coalesce(%(username)s, username), password = coalesce(%(password)s, password)
WHERE id = %(id)s RETURNING id

-- name: edit_writer
UPDATE regente.writers
SET name = coalesce(%(name)s, name), url = coalesce(%(url)s, url),
    api_key = coalesce(%(api_key)s, api_key),
    updated_at = regente.clock()
WHERE id = %(id)s RETURNING id

-- name: find_member
-- Members of any kind, by id or by name.
SELECT 'worker' AS kind, id FROM regente.workers WHERE id = %(which)s OR name = %(which)s
UNION ALL SELECT 'proxy', id FROM regente.proxies WHERE id = %(which)s OR name = %(which)s
UNION ALL SELECT 'writer', id FROM regente.writers WHERE id = %(which)s OR name = %(which)s

-- name: worker
SELECT id, name, url, api_key, storage_domain, status::text AS status, session_count,
       current_mission_id, session_id, driver_id,
       failures, active
FROM regente.workers WHERE id = %(id)s

-- name: proxy
SELECT id, name, host, port, username, password FROM regente.proxies WHERE id = %(id)s

-- name: writer
SELECT id, name, url, api_key, active FROM regente.writers WHERE id = %(id)s

-- name: active_writer
SELECT id, name, url, api_key, active FROM regente.writers WHERE active ORDER BY random() LIMIT 1

-- name: list_members
SELECT 'worker' AS kind, w.id, w.name, w.url AS address, w.active, w.status::text AS status,
       w.last_test_at, w.last_test_ok,
       w.last_test_message,
       jsonb_strip_nulls(jsonb_build_object(
         'session_count', w.session_count, 'mission', w.current_mission_id, 'storage_domain',
         w.storage_domain,
         'proxy', (SELECT p.name FROM regente.proxies p WHERE p.in_use_by_worker_id = w.id),
         'failures', nullif(w.failures, 0),
         'error_code', w.error_code, 'error_message', w.error_message)) AS details, 1 AS place
FROM regente.workers w WHERE %(kind)s::text IS NULL OR %(kind)s = 'worker'
UNION ALL
SELECT 'proxy', p.id, p.name, p.host || coalesce(':' || p.port, ''), p.active,
       CASE WHEN NOT p.active THEN 'inactive' WHEN p.in_use_by_worker_id IS NULL THEN 'free'
            ELSE 'in use' END,
       p.last_test_at, p.last_test_ok, p.last_test_message,
       jsonb_strip_nulls(jsonb_build_object(
         'fail_count', p.fail_count, 'worker', (SELECT w.name FROM regente.workers w
                                                WHERE w.id = p.in_use_by_worker_id),
         'last_used_at', p.last_used_at, 'last_failed_at', p.last_failed_at, 'last_failure',
         p.last_failure)), 2
FROM regente.proxies p WHERE %(kind)s::text IS NULL OR %(kind)s = 'proxy'
UNION ALL
SELECT 'writer', w.id, w.name, w.url, w.active, CASE WHEN w.active THEN 'active'
    ELSE 'inactive' END, w.last_test_at,
       w.last_test_ok, w.last_test_message, '{}', 3
FROM regente.writers w WHERE %(kind)s::text IS NULL OR %(kind)s = 'writer'
ORDER BY place, name

-- name: set_worker_active
UPDATE regente.workers SET active = %(active)s, failures = CASE WHEN %(active)s THEN 0
    ELSE failures END,
  error_code = CASE WHEN NOT %(active)s THEN error_code END, error_message = CASE
      WHEN NOT %(active)s THEN error_message END,
  updated_at = regente.clock()
WHERE id = %(id)s RETURNING id

-- name: set_proxy_active
-- A manual activation resets the failures.
UPDATE regente.proxies SET active = %(active)s, fail_count = CASE WHEN %(active)s THEN 0
    ELSE fail_count END
WHERE id = %(id)s RETURNING id

-- name: set_writer_active
UPDATE regente.writers SET active = %(active)s, updated_at = regente.clock() WHERE id = %(id)s
RETURNING id

-- name: note_worker_test
UPDATE regente.workers SET last_test_at = regente.clock(), last_test_ok = %(ok)s,
       last_test_message = %(message)s WHERE id = %(id)s

-- name: note_proxy_test
UPDATE regente.proxies SET last_test_at = regente.clock(), last_test_ok = %(ok)s,
       last_test_message = %(message)s WHERE id = %(id)s

-- name: note_writer_test
UPDATE regente.writers SET last_test_at = regente.clock(), last_test_ok = %(ok)s,
       last_test_message = %(message)s WHERE id = %(id)s

-- name: remove_worker
DELETE FROM regente.workers WHERE id = %(id)s AND status = 'idle' AND current_mission_id IS NULL
RETURNING id

-- name: remove_proxy
DELETE FROM regente.proxies WHERE id = %(id)s AND in_use_by_worker_id IS NULL RETURNING id

-- name: remove_writer
DELETE FROM regente.writers w WHERE w.id = %(id)s AND NOT EXISTS (
  SELECT FROM regente.mission_runs r JOIN regente.tasks t ON t.id = r.mission_id
  WHERE r.writer_id = w.id AND r.checkpoint = 'armazenamento' AND t.status IN ('queued', 'running'))
RETURNING id

-- name: log_fleet
INSERT INTO regente.events (event, details) VALUES (%(event)s, %(details)s::jsonb)
