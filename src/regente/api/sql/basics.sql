-- Statements that all resources use.

-- name: with_limits
SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('statement_timeout', %(milliseconds)s, true)

-- name: ping
SELECT regente.clock() AS now

-- name: log_operator
-- An operator's action: author, action, before, after.
INSERT INTO regente.events (event, details) VALUES ('operator_action', %(details)s::jsonb)
