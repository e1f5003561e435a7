DROP FUNCTION regente.cancel_children(bigint[]);
DROP FUNCTION regente.wake_parents(bigint[]);
DROP FUNCTION regente.children_are_done(bigint);
CREATE OR REPLACE FUNCTION regente.waits_until(waiting bigint, waiting_step text)
RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wait regente.waits;
BEGIN
  SELECT w.* INTO wait FROM regente.waits w
  WHERE w.task_id = waiting AND w.step = waiting_step;
  IF EXISTS (SELECT FROM regente.signals s WHERE s.task_id = waiting AND s.name = wait.signal
             AND s.ended_at IS NULL) THEN
    PERFORM pg_notify('regente_queued', t.pipeline) FROM regente.tasks t WHERE t.id = waiting;
    RETURN regente.clock();
  END IF;
  RETURN coalesce(wait.until, '9000-01-01 00:00:00+00');
END $$;
DELETE FROM regente.waits WHERE signal IS NULL;
ALTER TABLE regente.waits DROP COLUMN batch_id, ALTER COLUMN signal SET NOT NULL;
DROP INDEX regente.batches_of_parent;
ALTER TABLE regente.batches
  DROP COLUMN parent_id, DROP COLUMN parent_step, DROP COLUMN parent_call, DROP COLUMN wake_after,
  DROP COLUMN depth, DROP COLUMN closings, DROP COLUMN on_complete;
