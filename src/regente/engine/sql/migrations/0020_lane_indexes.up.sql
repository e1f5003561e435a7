-- outside a transaction
-- Concurrently, so that a large table is not locked while they are built. Partial: tasks without a
-- lane pay nothing. A build that failed leaves an index that is not valid.
DROP INDEX CONCURRENTLY IF EXISTS regente.tasks_in_lane;
CREATE INDEX CONCURRENTLY tasks_in_lane
    ON regente.tasks (lane, pipeline, regente.claim_rank(priority, attempt) DESC, lane_run_at, id)
    WHERE status = 'queued' AND lane IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS regente.tasks_running_in_lane;
CREATE INDEX CONCURRENTLY tasks_running_in_lane ON regente.tasks (lane)
    WHERE status = 'running' AND lane IS NOT NULL;
