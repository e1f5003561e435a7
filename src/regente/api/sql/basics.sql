-- Statements that all resources use.

-- name: with_limits
SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('statement_timeout', %(milliseconds)s, true)

-- name: ping
SELECT regente.clock() AS now

-- name: log_operator
-- An operator's action: author, action, before, after.
SELECT regente.audit(%(details)s::jsonb)

-- name: audit_chain
-- What is wrong with the chain of audit events: the first that is altered, and the first gap, from
-- the last one that retention has deleted (the floor) up to the head.
WITH ends AS (
  SELECT coalesce((SELECT value FROM regente.settings WHERE key = 'audit_head'),
                  '{"number": 0, "hash": ""}') AS head,
         coalesce((SELECT value FROM regente.settings WHERE key = 'audit_floor'),
                  '{"number": 0, "hash": ""}') AS floor
),
link AS (
  SELECT (e.details -> 'audit' ->> 'number')::bigint AS number,
         e.details -> 'audit' ->> 'hash' AS hash, e.details -> 'audit' ->> 'previous' AS previous,
         regente.audit_hash(e.details -> 'audit' ->> 'previous',
                            (e.details -> 'audit' ->> 'number')::bigint, e.at,
                            e.details - 'audit') AS computed
  FROM regente.events e WHERE e.event = 'operator_action' AND e.details ? 'audit'
),
checked AS (
  SELECT link.number, link.hash <> link.computed AS altered,
         link.number <> lag(link.number, 1, (ends.floor ->> 'number')::bigint)
             OVER (ORDER BY link.number) + 1
         OR link.previous <> lag(link.hash, 1, ends.floor ->> 'hash')
             OVER (ORDER BY link.number) AS gap
  FROM link CROSS JOIN ends WHERE link.number > (ends.floor ->> 'number')::bigint
)
SELECT (ends.floor ->> 'number')::bigint AS floor, (ends.head ->> 'number')::bigint AS head,
       ends.head ->> 'hash' AS head_hash,
       (SELECT count(*) FROM checked) AS checked,
       (SELECT max(number) FROM checked) AS last,
       (SELECT min(number) FROM checked WHERE altered) AS altered,
       (SELECT min(number) FROM checked WHERE gap) AS gap,
       (SELECT count(*) FROM link WHERE link.hash = %(kept)s::text) = 1
         OR ends.floor ->> 'hash' = %(kept)s::text AS has_kept,
       (SELECT count(*) FROM regente.events e
        WHERE e.event = 'operator_action' AND NOT e.details ? 'audit') AS unchained
FROM ends
