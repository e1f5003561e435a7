DROP INDEX regente.tasks_to_claim;
CREATE INDEX tasks_to_claim ON regente.tasks (pipeline, priority DESC, run_at, id)
    WHERE status = 'queued';
DROP FUNCTION regente.claim_rank(smallint, integer);
