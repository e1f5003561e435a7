-- A task that ran before comes before those of its priority that never ran: it is older. For so
-- many attempts only (KEEPS_PLACE_ATTEMPTS in engine/priority_levels.py), so that tasks that come
-- back for ever starve no other.
CREATE FUNCTION regente.claim_rank(priority smallint, attempt integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN priority::integer * 2 + (attempt BETWEEN 1 AND 10)::integer;

DROP INDEX regente.tasks_to_claim;
CREATE INDEX tasks_to_claim
    ON regente.tasks (pipeline, regente.claim_rank(priority, attempt) DESC, run_at, id)
    WHERE status = 'queued';
