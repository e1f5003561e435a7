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
named AS (
  SELECT e.at, e.details, e.details -> 'audit' AS audit,
         num_nonnulls(e.task_id, e.batch_id, e.runner_id, e.attempt) AS others,
         CASE WHEN e.details #>> '{audit,number}' ~ '^[0-9]{1,18}$'
              THEN (e.details #>> '{audit,number}')::bigint ELSE 0 END AS number
  FROM regente.events e WHERE e.event = 'operator_action' AND e.details ? 'audit'
),
link AS (
  SELECT number, audit ->> 'hash' AS hash, audit ->> 'previous' AS previous, others,
         audit IS DISTINCT FROM jsonb_build_object(
           'number', number, 'previous', audit ->> 'previous',
           'hash', regente.audit_hash(audit ->> 'previous', number, at, details - 'audit'))
           AS differs
  FROM named
),
judged AS (
  SELECT link.number, link.hash, link.previous,
         link.differs OR link.others > 0
         OR (link.number = (ends.head ->> 'number')::bigint
             AND link.hash IS DISTINCT FROM ends.head ->> 'hash') AS altered
  FROM link CROSS JOIN ends
),
checked AS (
  SELECT judged.number,
         judged.number <> lag(judged.number, 1, (ends.floor ->> 'number')::bigint)
             OVER (ORDER BY judged.number) + 1
         OR judged.previous IS DISTINCT FROM lag(judged.hash, 1, ends.floor ->> 'hash')
             OVER (ORDER BY judged.number) AS gap
  FROM judged CROSS JOIN ends WHERE judged.number > (ends.floor ->> 'number')::bigint
)
SELECT (ends.floor ->> 'number')::bigint AS floor, (ends.head ->> 'number')::bigint AS head,
       ends.head ->> 'hash' AS head_hash,
       (SELECT count(*) FROM checked) AS checked,
       (SELECT max(number) FROM checked) AS last,
       (SELECT min(number) FROM judged WHERE altered) AS altered,
       (SELECT min(number) FROM checked WHERE gap) AS gap,
       (SELECT count(*) FROM link WHERE link.hash = %(kept)s::text) = 1
         OR ends.floor ->> 'hash' = %(kept)s::text AS has_kept,
       (SELECT count(*) FROM regente.events e
        WHERE e.event = 'operator_action' AND NOT e.details ? 'audit') AS unchained
FROM ends
