-- The fleet's statements.

-- name: add_worker
INSERT INTO regente.workers (name, url, api_key, storage_domain)
    VALUES (%(name)s, %(url)s, %(api_key)s, %(storage_domain)s)
ON CONFLICT (name) WHERE removed_at IS NULL DO NOTHING RETURNING id

-- name: add_proxy
INSERT INTO regente.proxies (name, host, port, username, password)
VALUES (%(name)s, %(host)s, %(port)s, %(username)s, %(password)s)
ON CONFLICT (name) WHERE removed_at IS NULL DO NOTHING RETURNING id

-- name: add_writer
INSERT INTO regente.writers (name, url, api_key) VALUES (%(name)s, %(url)s, %(api_key)s)
ON CONFLICT (name) WHERE removed_at IS NULL DO NOTHING RETURNING id

-- name: edit_worker
UPDATE regente.workers
SET name = coalesce(%(name)s, name), url = coalesce(%(url)s, url),
    api_key = coalesce(%(api_key)s, api_key),
    storage_domain = coalesce(%(storage_domain)s, storage_domain), updated_at = regente.clock()
WHERE id = %(id)s AND removed_at IS NULL RETURNING id

-- name: edit_proxy
UPDATE regente.proxies
SET name = coalesce(%(name)s, name), host = coalesce(%(host)s, host),
    port = coalesce(%(port)s, port),
    username = coalesce(%(username)s, username), password = coalesce(%(password)s, password)
WHERE id = %(id)s AND removed_at IS NULL RETURNING id

-- name: edit_writer
-- With another address or key it is tried at once.
UPDATE regente.writers
SET name = coalesce(%(name)s, name), url = coalesce(%(url)s, url),
    api_key = coalesce(%(api_key)s, api_key),
    rest_until = CASE WHEN %(url)s::text IS NULL AND %(api_key)s::text IS NULL THEN rest_until END,
    updated_at = regente.clock()
WHERE id = %(id)s AND removed_at IS NULL RETURNING id

-- name: find_member
-- Members of any kind, by id or by name.
SELECT 'worker' AS kind, id FROM regente.workers
WHERE (id = %(which)s OR name = %(which)s) AND removed_at IS NULL
UNION ALL SELECT 'proxy', id FROM regente.proxies
WHERE (id = %(which)s OR name = %(which)s) AND removed_at IS NULL
UNION ALL SELECT 'writer', id FROM regente.writers
WHERE (id = %(which)s OR name = %(which)s) AND removed_at IS NULL

-- name: worker
SELECT id, name, url, api_key, storage_domain, status::text AS status, session_count,
       current_mission_id, session_id, driver_id,
       failures, active
FROM regente.workers WHERE id = %(id)s AND removed_at IS NULL

-- name: proxy
SELECT id, name, host, port, username, password FROM regente.proxies
WHERE id = %(id)s AND removed_at IS NULL

-- name: writer
SELECT id, name, url, api_key, active FROM regente.writers
WHERE id = %(id)s AND removed_at IS NULL

-- name: list_worker
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
WHERE (%(id)s::text IS NULL OR w.id = %(id)s) AND w.removed_at IS NULL ORDER BY w.name

-- name: list_proxy
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
WHERE (%(id)s::text IS NULL OR p.id = %(id)s) AND p.removed_at IS NULL ORDER BY p.name

-- name: list_writer
SELECT w.id, w.name, w.active, w.last_test_at, w.last_test_ok, w.last_test_message, w.created_at,
       w.url, CASE WHEN NOT w.active THEN 'inactive'
                   WHEN w.failures > 0 OR w.failed_jobs > 0 THEN 'resting' ELSE 'active'
              END AS status,
       w.failures, w.failed_jobs, w.last_failed_at, w.error_code, w.error_message,
       CASE WHEN w.rest_until > regente.clock() THEN w.rest_until END AS rest_until
FROM regente.writers w
WHERE (%(id)s::text IS NULL OR w.id = %(id)s) AND w.removed_at IS NULL ORDER BY w.name

-- name: set_worker_active
UPDATE regente.workers SET active = %(active)s, failures = CASE WHEN %(active)s THEN 0
    ELSE failures END,
  error_code = CASE WHEN NOT %(active)s THEN error_code END, error_message = CASE
      WHEN NOT %(active)s THEN error_message END,
  updated_at = regente.clock()
WHERE id = %(id)s AND removed_at IS NULL RETURNING id

-- name: set_proxy_active
-- A manual activation resets the failures.
UPDATE regente.proxies SET active = %(active)s, fail_count = CASE WHEN %(active)s THEN 0
    ELSE fail_count END
WHERE id = %(id)s AND removed_at IS NULL RETURNING id

-- name: set_writer_active
-- A manual activation resets the failures.
UPDATE regente.writers
SET active = %(active)s, failures = CASE WHEN %(active)s THEN 0 ELSE failures END,
    failed_jobs = CASE WHEN %(active)s THEN 0 ELSE failed_jobs END,
    rest_until = CASE WHEN NOT %(active)s THEN rest_until END,
    error_code = CASE WHEN NOT %(active)s THEN error_code END,
    error_message = CASE WHEN NOT %(active)s THEN error_message END, updated_at = regente.clock()
WHERE id = %(id)s AND removed_at IS NULL RETURNING id

-- name: note_worker_test
UPDATE regente.workers SET last_test_at = regente.clock(), last_test_ok = %(ok)s,
       last_test_message = %(message)s WHERE id = %(id)s

-- name: note_proxy_test
UPDATE regente.proxies SET last_test_at = regente.clock(), last_test_ok = %(ok)s,
       last_test_message = %(message)s WHERE id = %(id)s

-- name: note_writer_test
-- One that answers again need not rest any longer.
UPDATE regente.writers SET last_test_at = regente.clock(), last_test_ok = %(ok)s,
       last_test_message = %(message)s, rest_until = CASE WHEN NOT %(ok)s THEN rest_until END
WHERE id = %(id)s

-- name: remove_worker
-- What is removed stays as a row without its secret: missions and their log keep naming it.
WITH removed AS (
  UPDATE regente.workers
  SET removed_at = regente.clock(), updated_at = regente.clock(), active = false, api_key = ''
  WHERE id = %(id)s AND removed_at IS NULL AND status = 'idle' AND current_mission_id IS NULL
  RETURNING id
),
freed AS (
  UPDATE regente.proxies SET in_use_by_worker_id = NULL
  WHERE in_use_by_worker_id IN (SELECT id FROM removed)
)
SELECT id FROM removed

-- name: remove_proxy
UPDATE regente.proxies SET removed_at = regente.clock(), active = false, password = NULL
WHERE id = %(id)s AND removed_at IS NULL AND in_use_by_worker_id IS NULL RETURNING id

-- name: remove_writer
UPDATE regente.writers w
SET removed_at = regente.clock(), updated_at = regente.clock(), active = false, api_key = ''
WHERE w.id = %(id)s AND w.removed_at IS NULL AND NOT EXISTS (
  SELECT FROM regente.mission_runs r JOIN regente.tasks t ON t.id = r.mission_id
  WHERE r.writer_id = w.id AND r.checkpoint = 'armazenamento' AND t.status IN ('queued', 'running'))
RETURNING id

-- name: set_author
-- Triggers write the events of the register with this author.
SELECT set_config('regente.by', %(by)s, true)

-- name: offer_sealing_key
-- The key for which the database seals what is written in SQL. One that this process cannot open
-- stays, unless this one was given to it by name.
INSERT INTO regente.settings (key, value)
VALUES ('sealing_key', jsonb_build_object('id', %(id)s::text, 'public', %(public)s::text))
ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = regente.clock()
WHERE settings.value <> excluded.value
  AND (%(named)s::boolean OR settings.value ->> 'id' = ANY (%(known)s::text[]))

-- name: log_fleet
INSERT INTO regente.events (event, details) VALUES (%(event)s, %(details)s::jsonb)

-- name: stored_secrets
SELECT 'worker' AS kind, id, api_key AS secret FROM regente.workers WHERE removed_at IS NULL
UNION ALL SELECT 'proxy', id, password FROM regente.proxies WHERE password IS NOT NULL
UNION ALL SELECT 'writer', id, api_key FROM regente.writers WHERE removed_at IS NULL
ORDER BY kind, id

-- name: replace_worker_secret
-- Only the one that was read: a secret that was entered meanwhile stays.
UPDATE regente.workers SET api_key = %(new)s WHERE id = %(id)s AND api_key = %(old)s

-- name: replace_proxy_secret
UPDATE regente.proxies SET password = %(new)s WHERE id = %(id)s AND password = %(old)s

-- name: replace_writer_secret
UPDATE regente.writers SET api_key = %(new)s WHERE id = %(id)s AND api_key = %(old)s
