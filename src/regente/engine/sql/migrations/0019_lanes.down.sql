-- Tasks that wait in lanes go to the queues of their pipelines, without the lanes' limits.
ALTER TABLE regente.tasks DROP CONSTRAINT lanes_have_their_own_queue;
UPDATE regente.tasks SET run_at = lane_run_at WHERE lane IS NOT NULL;
ALTER TABLE regente.tasks DROP COLUMN lane, DROP COLUMN lane_run_at;
ALTER TABLE regente.schedules DROP COLUMN lane;
ALTER TABLE regente.pipelines DROP COLUMN lane_concurrency, DROP COLUMN lane_rate,
  DROP COLUMN lane_burst, DROP COLUMN lane_min_rate, DROP COLUMN lane_weight,
  DROP COLUMN lane_breaker;
DROP FUNCTION regente.running_in_lanes(text[]);
DROP TABLE regente.lane_queues;
DROP TABLE regente.lanes;
DROP TYPE regente.breaker_state;
DROP FUNCTION regente.in_lane();

CREATE OR REPLACE FUNCTION regente.signal(
  task_id bigint, name text, payload json DEFAULT 'null', key text DEFAULT NULL,
  details jsonb DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  target record;
  sent   bigint;
BEGIN
  IF signal.name IS NULL OR length(signal.name) NOT BETWEEN 1 AND 100
     OR length(signal.key) NOT BETWEEN 1 AND 500 THEN
    RAISE EXCEPTION 'a signal has a name of 1 to 100 characters and a key of at most 500'
    USING ERRCODE = 'RG002';
  END IF;
  IF length(signal.payload::text) > 1048576 THEN
    RAISE EXCEPTION 'the payload of a signal has at most 1,048,576 characters'
    USING ERRCODE = 'RG002';
  END IF;
  SELECT t.status, t.pipeline, t.priority, t.batch_id, t.attempt INTO target
  FROM regente.tasks t WHERE t.id = signal.task_id FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no task %', signal.task_id USING ERRCODE = 'RG003';
  END IF;
  SELECT s.id INTO sent FROM regente.signals s
  WHERE s.task_id = signal.task_id AND s.name = signal.name AND s.key = signal.key;
  IF FOUND THEN
    RETURN sent;
  END IF;
  IF target.status >= 'completed' THEN
    RAISE EXCEPTION 'task % is %: it receives no signals', signal.task_id, target.status
    USING ERRCODE = 'RG001';
  END IF;
  IF (SELECT count(*) FROM (SELECT FROM regente.signals s WHERE s.task_id = signal.task_id
                            AND s.ended_at IS NULL LIMIT 1000) AS waiting) = 1000 THEN
    RAISE EXCEPTION 'task % has 1,000 signals that it did not receive yet', signal.task_id
    USING ERRCODE = 'RG002';
  END IF;
  INSERT INTO regente.signals (task_id, name, key, payload)
  VALUES (signal.task_id, signal.name, signal.key, coalesce(signal.payload, 'null'))
  RETURNING id INTO sent;
  INSERT INTO regente.events (task_id, batch_id, attempt, event, details)
  VALUES (signal.task_id, target.batch_id, target.attempt, 'task_signaled',
          jsonb_build_object('signal', signal.name) || coalesce(signal.details, '{}'));
  UPDATE regente.tasks t SET run_at = regente.clock()
  WHERE t.id = signal.task_id AND t.status = 'queued' AND t.run_at > regente.clock()
    AND EXISTS (SELECT FROM regente.waits w WHERE w.task_id = t.id AND w.attempt = t.attempt
                AND w.signal = signal.name);
  IF FOUND THEN
    PERFORM pg_notify('regente_queued', concat_ws(' ', target.pipeline, target.priority, 0,
                                                  extract(epoch FROM regente.clock())));
  END IF;
  RETURN sent;
END $$;

CREATE OR REPLACE FUNCTION regente.wake_parents(children bigint[]) RETURNS bigint
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
