CREATE OR REPLACE FUNCTION regente.batch_lives(batch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM regente.tasks t WHERE t.batch_id = batch AND t.status < 'completed');
END $$;
CREATE INDEX tasks_of_batch_by_state ON regente.tasks (batch_id, status)
    WHERE batch_id IS NOT NULL;
DROP INDEX regente.tasks_of_batch;
ALTER INDEX regente.tasks_of_batch_by_state RENAME TO tasks_of_batch;
