-- People who sign in with an OpenID Connect provider, and their sign-ins under way.

-- name: begin_oidc
WITH over AS (DELETE FROM regente.oidc_sign_ins WHERE expires_at <= regente.clock())
INSERT INTO regente.oidc_sign_ins (hash, page, expires_at)
VALUES (%(hash)s, %(page)s,
        regente.clock() + make_interval(secs => %(seconds)s::double precision))

-- name: use_oidc
-- Of two concurrent uses one succeeds.
DELETE FROM regente.oidc_sign_ins
WHERE hash = %(hash)s AND expires_at > regente.clock()
RETURNING page

-- name: sign_in_person
INSERT INTO regente.people (issuer, subject, name, role)
VALUES (%(issuer)s, %(subject)s, %(name)s, %(role)s::regente.api_role)
ON CONFLICT (issuer, subject) DO UPDATE
SET name = excluded.name, role = excluded.role, signed_in_at = regente.clock()
RETURNING id

-- name: refuse_person
WITH refused AS (
  UPDATE regente.people SET role = NULL
  WHERE issuer = %(issuer)s AND subject = %(subject)s RETURNING id
)
DELETE FROM regente.api_sessions s USING refused WHERE s.person_id = refused.id

-- name: list_people
SELECT p.id, p.name, p.issuer, p.role::text AS role, p.created_at, p.signed_in_at,
       (SELECT count(*) FROM regente.api_sessions s
        WHERE s.person_id = p.id AND s.expires_at > regente.clock()) AS sessions
FROM regente.people p ORDER BY p.name, p.id

-- name: end_sessions_of_person
WITH person AS (SELECT id, name FROM regente.people WHERE id = %(id)s),
ended AS (
  DELETE FROM regente.api_sessions s USING person WHERE s.person_id = person.id RETURNING s.id
)
SELECT person.id, person.name, (SELECT count(*) FROM ended) AS ended FROM person
