-- Keys, console sessions and sign-in links, all found by their hash.

-- name: add_first_key
-- Of two concurrent first starts one creates it.
INSERT INTO regente.api_keys (name, prefix, hash, role, created_by, expires_at)
SELECT %(name)s, %(prefix)s, %(hash)s, %(role)s::regente.api_role, %(by)s, %(expires_at)s
WHERE NOT EXISTS (SELECT FROM regente.api_keys)
ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING
RETURNING id

-- name: add_key
INSERT INTO regente.api_keys (name, prefix, hash, role, created_by, expires_at)
VALUES (%(name)s, %(prefix)s, %(hash)s, %(role)s::regente.api_role, %(by)s, %(expires_at)s)
ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING
RETURNING id

-- name: list_keys
SELECT k.id, k.name, k.prefix, k.role::text AS role, k.created_at, k.created_by, k.expires_at,
       k.last_used_at, k.revoked_at,
       k.revoked_by, (SELECT count(*) FROM regente.api_sessions s
                      WHERE s.key_id = k.id AND s.expires_at > regente.clock()) AS sessions,
       CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked'
            WHEN k.expires_at <= regente.clock() THEN 'expired' ELSE 'valid' END AS status
FROM regente.api_keys k
WHERE %(id)s::text IS NULL OR k.id = %(id)s ORDER BY k.created_at, k.id

-- name: find_key
SELECT id FROM regente.api_keys WHERE (id = %(which)s OR name = %(which)s) AND revoked_at IS NULL

-- name: revoke_key
WITH revoked AS (
  UPDATE regente.api_keys SET revoked_at = regente.clock(), revoked_by = %(by)s
  WHERE id = %(id)s AND revoked_at IS NULL RETURNING id
),
ended AS (DELETE FROM regente.api_sessions s USING revoked WHERE s.key_id = revoked.id),
spent AS (DELETE FROM regente.sign_in_tokens t USING revoked WHERE t.key_id = revoked.id)
SELECT id FROM revoked

-- name: other_admins
SELECT count(*) AS count FROM regente.api_keys
WHERE role = 'admin' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > regente.clock())
  AND id <> %(id)s

-- name: use_key
WITH found AS (
  SELECT id, name, role, last_used_at FROM regente.api_keys
  WHERE hash = %(hash)s AND revoked_at IS NULL AND (expires_at IS NULL
                                                    OR expires_at > regente.clock())
),
noted AS (
  UPDATE regente.api_keys k SET last_used_at = regente.clock() FROM found
  WHERE k.id = found.id AND (found.last_used_at IS NULL
                             OR found.last_used_at < regente.clock() - interval '1 minute')
)
SELECT id, name, role::text AS role FROM found

-- name: use_session
WITH found AS (
  SELECT k.id, k.name, k.role, s.hash, s.last_used_at, s.expires_at
  FROM regente.api_sessions s JOIN regente.api_keys k ON k.id = s.key_id
  WHERE s.hash = %(hash)s AND s.expires_at > regente.clock()
    AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > regente.clock())
),
noted AS (
  UPDATE regente.api_sessions s SET last_used_at = regente.clock() FROM found
  WHERE s.hash = found.hash AND (found.last_used_at IS NULL
                                 OR found.last_used_at < regente.clock() - interval '1 minute')
)
SELECT id, name, role::text AS role, expires_at FROM found

-- name: begin_console_session
WITH over AS (DELETE FROM regente.api_sessions WHERE expires_at <= regente.clock())
INSERT INTO regente.api_sessions (hash, key_id, expires_at)
SELECT %(hash)s, k.id, least(regente.clock() + make_interval(secs => %(seconds)s::double precision),
                             k.expires_at)
FROM regente.api_keys k WHERE k.id = %(key_id)s
RETURNING expires_at

-- name: end_console_session
DELETE FROM regente.api_sessions WHERE hash = %(hash)s RETURNING key_id

-- name: add_sign_in
WITH over AS (DELETE FROM regente.sign_in_tokens WHERE expires_at <= regente.clock())
INSERT INTO regente.sign_in_tokens (hash, key_id, created_by, expires_at)
SELECT %(hash)s, k.id, %(by)s,
       regente.clock() + make_interval(secs => %(seconds)s::double precision)
FROM regente.api_keys k
WHERE k.id = %(key_id)s AND k.revoked_at IS NULL AND (k.expires_at IS NULL
                                                      OR k.expires_at > regente.clock())
RETURNING expires_at

-- name: spend_sign_in
-- Of two concurrent uses of a link one succeeds.
UPDATE regente.sign_in_tokens t SET used_at = regente.clock() FROM regente.api_keys k
WHERE t.hash = %(hash)s AND t.used_at IS NULL AND t.expires_at > regente.clock()
  AND k.id = t.key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL
                                                    OR k.expires_at > regente.clock())
RETURNING k.id, k.name, k.role::text AS role
