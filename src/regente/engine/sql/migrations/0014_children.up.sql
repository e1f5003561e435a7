-- Children: tasks that a step of another task has spawned. They are a batch that belongs to the
-- step; its closing wakes the parent. And what is queued when a batch closes.
ALTER TABLE regente.batches
  ADD COLUMN parent_id   bigint,
  ADD COLUMN parent_step text,
  ADD COLUMN parent_call text,      -- what the step spawned, as text
  ADD COLUMN wake_after  bigint,    -- completed children that are enough
  ADD COLUMN depth       smallint NOT NULL DEFAULT 0,
  ADD COLUMN closings    integer NOT NULL DEFAULT 0,
  ADD COLUMN on_complete text;
CREATE UNIQUE INDEX batches_of_parent ON regente.batches (parent_id, parent_step)
    WHERE parent_id IS NOT NULL;

ALTER TABLE regente.waits ALTER COLUMN signal DROP NOT NULL, ADD COLUMN batch_id bigint;
CREATE INDEX waits_for_children ON regente.waits (batch_id) WHERE batch_id IS NOT NULL;

-- Whether the parent of these children may go on.
CREATE FUNCTION regente.children_are_done(batch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ended  boolean;
  enough bigint;
BEGIN
  SELECT b.status >= 'completed', b.wake_after INTO ended, enough
  FROM regente.batches b WHERE b.id = batch;
  RETURN coalesce(ended, true) OR (enough IS NOT NULL AND enough <= (
    SELECT count(*) FROM (SELECT FROM regente.tasks t WHERE t.batch_id = batch
                          AND t.status = 'completed' LIMIT enough) AS done));
END $$;

CREATE OR REPLACE FUNCTION regente.waits_until(waiting bigint, waiting_step text)
RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wait regente.waits;
BEGIN
  SELECT w.* INTO wait FROM regente.waits w
  WHERE w.task_id = waiting AND w.step = waiting_step;
  IF (wait.batch_id IS NOT NULL AND regente.children_are_done(wait.batch_id))
     OR EXISTS (SELECT FROM regente.signals s WHERE s.task_id = waiting AND s.name = wait.signal
                AND s.ended_at IS NULL) THEN
    PERFORM pg_notify('regente_queued', t.pipeline) FROM regente.tasks t WHERE t.id = waiting;
    RETURN regente.clock();
  END IF;
  RETURN coalesce(wait.until, '9000-01-01 00:00:00+00');
END $$;

-- Wake the parents of these batches, of all with NULL, if their children are done. Returns how many
-- it could not look at, because their attempt is just ending, or another session has them locked.
CREATE FUNCTION regente.wake_parents(children bigint[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wait   record;
  parent record;
  missed bigint := 0;
BEGIN
  FOR wait IN
    SELECT b.parent_id, b.parent_step, b.id AS batch_id FROM regente.batches b
    WHERE b.id = ANY (children) AND b.parent_id IS NOT NULL
    UNION ALL
    SELECT w.task_id, w.step, w.batch_id FROM regente.waits w
    WHERE children IS NULL AND w.batch_id IS NOT NULL
    ORDER BY 1
  LOOP
    CONTINUE WHEN NOT regente.children_are_done(wait.batch_id);
    SELECT t.pipeline, t.priority, t.status INTO parent FROM regente.tasks t
    WHERE t.id = wait.parent_id FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      missed := missed + (EXISTS (SELECT FROM regente.tasks t WHERE t.id = wait.parent_id))::int;
      CONTINUE;
    END IF;
    UPDATE regente.tasks t SET run_at = regente.clock()
    WHERE t.id = wait.parent_id AND t.status = 'queued' AND t.run_at > regente.clock()
      AND EXISTS (SELECT FROM regente.waits w WHERE w.task_id = t.id AND w.attempt = t.attempt
                  AND w.batch_id = wait.batch_id);
    IF FOUND THEN
      PERFORM pg_notify('regente_queued', concat_ws(' ', parent.pipeline, parent.priority, 0,
                                                    extract(epoch FROM regente.clock())));
    END IF;
  END LOOP;
  RETURN missed;
END $$;

-- Cancel the children of canceled tasks, and theirs: those that wait end at once, those that run
-- are asked to. Locks the tasks from the parents down, each generation by id.
CREATE FUNCTION regente.cancel_children(parents bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  generation bigint[] := parents;
  holders    bigint[];
BEGIN
  LOOP
    WITH closed AS (
      UPDATE regente.batches b SET status = 'canceled', finished_at = regente.clock()
      WHERE b.parent_id = ANY (generation) AND b.status < 'completed' RETURNING b.id
    )
    INSERT INTO regente.events (batch_id, event, details)
    SELECT id, 'batch_canceled', '{"reason": "parent_canceled"}' FROM closed;
    SELECT array_agg(child.id) INTO generation FROM (
      SELECT t.id FROM regente.tasks t JOIN regente.batches b ON b.id = t.batch_id
      WHERE b.parent_id = ANY (generation) AND t.status < 'completed'
      ORDER BY t.id FOR UPDATE OF t) AS child;
    EXIT WHEN generation IS NULL;
    WITH ended AS (
      UPDATE regente.tasks t SET status = 'canceled', finished_at = regente.clock()
      WHERE t.id = ANY (generation) AND t.status IN ('draft', 'queued')
      RETURNING t.id, t.batch_id, t.attempt
    ),
    asked AS (
      UPDATE regente.tasks t SET cancel_requested_at = regente.clock()
      WHERE t.id = ANY (generation) AND t.status = 'running' AND t.cancel_requested_at IS NULL
      RETURNING t.id, t.batch_id, t.attempt, t.runner_id
    ),
    logged AS (
      INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
      SELECT id, batch_id, NULL, attempt, 'task_canceled',
             '{"reason": "parent_canceled"}'::jsonb FROM ended
      UNION ALL
      SELECT id, batch_id, runner_id, attempt, 'task_cancel_requested',
             '{"reason": "parent_canceled"}'::jsonb FROM asked
    )
    SELECT array_agg(DISTINCT runner_id) INTO holders FROM asked;
    PERFORM pg_notify('regente_cancel', holder::text) FROM unnest(holders) AS holder;
  END LOOP;
END $$;
