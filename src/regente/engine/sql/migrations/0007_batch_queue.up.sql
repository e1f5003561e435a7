-- The review of batches asks whether a batch has a task that is due for long. With `run_at` in the
-- index one probe answers it, however many of the batch's tasks wait for a later time.
CREATE INDEX tasks_of_batch_by_time ON regente.tasks (batch_id, status, run_at)
    WHERE batch_id IS NOT NULL;
DROP INDEX regente.tasks_of_batch;
ALTER INDEX regente.tasks_of_batch_by_time RENAME TO tasks_of_batch;

-- Volatile: it looks with a snapshot of its own, taken after the caller has locked the batch, and
-- one for all states. In each state the newest entries come first: among the oldest are those of
-- tasks that left the state, and an old snapshot of another session keeps them.
CREATE OR REPLACE FUNCTION regente.batch_lives(batch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM (SELECT FROM regente.tasks t WHERE t.batch_id = batch
                              AND t.status = 'running' ORDER BY t.run_at DESC LIMIT 1) AS r)
      OR EXISTS (SELECT FROM (SELECT FROM regente.tasks t WHERE t.batch_id = batch
                              AND t.status = 'queued' ORDER BY t.run_at DESC LIMIT 1) AS q)
      OR EXISTS (SELECT FROM regente.tasks t WHERE t.batch_id = batch AND t.status = 'draft');
END $$;
