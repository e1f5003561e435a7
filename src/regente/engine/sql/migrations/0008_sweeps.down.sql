DROP FUNCTION regente.batch_is_served(bigint, interval);
DROP TABLE regente.sweeps;

CREATE INDEX tasks_to_cancel ON regente.tasks (runner_id)
    WHERE status = 'running' AND cancel_requested_at IS NOT NULL;
