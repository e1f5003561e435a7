-- Keys, console sessions and sign-in links, all found by their hash.

-- name: add_first_key
-- Of two concurrent first starts one creates it.
INSERT INTO regente.api_keys (name, prefix, hash, role, created_by, expires_at, scopes)
SELECT %(name)s, %(prefix)s, %(hash)s, %(role)s::regente.api_role, %(by)s, %(expires_at)s,
       %(scopes)s::text[]
WHERE NOT EXISTS (SELECT FROM regente.api_keys)
ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING
RETURNING id

-- name: add_key
INSERT INTO regente.api_keys (name, prefix, hash, role, created_by, expires_at, scopes)
VALUES (%(name)s, %(prefix)s, %(hash)s, %(role)s::regente.api_role, %(by)s, %(expires_at)s,
        %(scopes)s::text[])
ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING
RETURNING id

-- name: list_keys
SELECT k.id, k.name, k.prefix, k.role::text AS role, k.scopes, k.created_at, k.created_by,
       k.expires_at, k.last_used_at, k.revoked_at,
       k.revoked_by, (SELECT count(*) FROM regente.api_sessions s
                      WHERE s.key_id = k.id AND s.expires_at > regente.clock()) AS sessions,
       CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked'
            WHEN k.expires_at <= regente.clock() THEN 'expired' ELSE 'valid' END AS status
FROM regente.api_keys k
WHERE %(id)s::text IS NULL OR k.id = %(id)s ORDER BY k.created_at, k.id

-- name: find_key
SELECT id FROM regente.api_keys WHERE (id = %(which)s OR name = %(which)s) AND revoked_at IS NULL

-- name: revoke_key
-- Not the last valid admin's; one with scopes does not count. The valid admins are locked, so that
-- of two concurrent revocations of the last two one is refused.
WITH admins AS MATERIALIZED (
  SELECT id FROM regente.api_keys
  WHERE role = 'admin' AND scopes IS NULL AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > regente.clock())
  ORDER BY id FOR UPDATE
),
revoked AS (
  UPDATE regente.api_keys SET revoked_at = regente.clock(), revoked_by = %(by)s
  WHERE id = %(id)s AND revoked_at IS NULL
    AND (NOT EXISTS (SELECT FROM admins WHERE id = %(id)s)
         OR EXISTS (SELECT FROM admins WHERE id <> %(id)s))
  RETURNING id
),
ended AS (DELETE FROM regente.api_sessions s USING revoked WHERE s.key_id = revoked.id),
spent AS (DELETE FROM regente.sign_in_tokens t USING revoked WHERE t.key_id = revoked.id)
SELECT id FROM revoked

-- name: use_key
WITH found AS (
  SELECT id, name, role, scopes, last_used_at FROM regente.api_keys
  WHERE hash = %(hash)s AND revoked_at IS NULL AND (expires_at IS NULL
                                                    OR expires_at > regente.clock())
),
noted AS (
  UPDATE regente.api_keys k SET last_used_at = regente.clock() FROM found
  WHERE k.id = found.id AND (found.last_used_at IS NULL
                             OR found.last_used_at < regente.clock() - interval '1 minute')
)
SELECT id, name, role::text AS role, scopes FROM found

-- name: use_session
-- With the key or person that it belongs to. A person counts while they have a role and their
-- provider is the configured one.
WITH found AS (
  SELECT coalesce(k.id, p.id) AS id, coalesce(k.name, p.name) AS name,
         coalesce(k.role, p.role) AS role, k.scopes, s.hash, s.id AS session_id, s.last_used_at
  FROM regente.api_sessions s
  LEFT JOIN regente.api_keys k ON k.id = s.key_id AND k.revoked_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > regente.clock())
  LEFT JOIN regente.people p ON p.id = s.person_id AND p.issuer = %(issuer)s::text
  WHERE s.hash = %(hash)s AND s.expires_at > regente.clock()
    AND coalesce(s.last_used_at, s.created_at)
        > regente.clock() - make_interval(secs => %(idle_seconds)s::double precision)
    AND coalesce(k.role, p.role) IS NOT NULL
),
noted AS (
  UPDATE regente.api_sessions s SET last_used_at = regente.clock() FROM found
  WHERE s.hash = found.hash AND (found.last_used_at IS NULL
                                 OR found.last_used_at < regente.clock() - interval '1 minute')
)
SELECT id, name, role::text AS role, scopes, session_id FROM found

-- name: begin_console_session
WITH over AS (DELETE FROM regente.api_sessions WHERE expires_at <= regente.clock())
INSERT INTO regente.api_sessions (hash, key_id, address, expires_at)
SELECT %(hash)s, k.id, %(address)s,
       least(regente.clock() + make_interval(secs => %(seconds)s::double precision), k.expires_at)
FROM regente.api_keys k WHERE k.id = %(account_id)s AND k.revoked_at IS NULL
RETURNING expires_at

-- name: begin_session_of_person
WITH over AS (DELETE FROM regente.api_sessions WHERE expires_at <= regente.clock())
INSERT INTO regente.api_sessions (hash, person_id, address, expires_at, id_token)
SELECT %(hash)s, p.id, %(address)s,
       regente.clock() + make_interval(secs => %(seconds)s::double precision), %(id_token)s
FROM regente.people p WHERE p.id = %(account_id)s AND p.role IS NOT NULL
RETURNING expires_at

-- name: id_token_of_session
SELECT id_token FROM regente.api_sessions WHERE hash = %(hash)s

-- name: end_console_session
DELETE FROM regente.api_sessions
WHERE id = %(id)s AND %(account_id)s IN (key_id, person_id) RETURNING id

-- name: list_console_sessions
SELECT id, address, created_at, last_used_at, expires_at FROM regente.api_sessions
WHERE %(account_id)s IN (key_id, person_id) AND expires_at > regente.clock()
  AND coalesce(last_used_at, created_at)
      > regente.clock() - make_interval(secs => %(idle_seconds)s::double precision)
ORDER BY created_at, id

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
RETURNING k.id, k.name, k.role::text AS role, k.scopes
