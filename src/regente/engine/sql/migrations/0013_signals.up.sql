-- What a person or a program tells a task, and what tasks wait for.
CREATE TABLE regente.signals (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task_id  bigint NOT NULL,
  sent_at  timestamptz NOT NULL DEFAULT regente.clock(),
  ended_at timestamptz,            -- received or refused
  name     text NOT NULL,
  key      text,                   -- the same signal sent again is stored once
  step     text,                   -- the step that received it; NULL: none, or it was refused
  payload  json NOT NULL
);
CREATE INDEX signals_to_receive ON regente.signals (task_id, name, id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX signals_once_per_key ON regente.signals (task_id, name, key);

-- A row counts while its task is queued by the same attempt.
CREATE TABLE regente.waits (
  task_id bigint NOT NULL,
  attempt integer NOT NULL,
  since   timestamptz NOT NULL DEFAULT regente.clock(),
  until   timestamptz,             -- NULL: for as long as it takes
  step    text NOT NULL,
  signal  text NOT NULL,
  PRIMARY KEY (task_id, step)
);

-- When a task that begins to wait is due. Volatile, so that it looks with a snapshot of its own,
-- taken after the caller has locked the task's row: a signal that came before is seen here, and one
-- that comes after finds the task waiting.
CREATE FUNCTION regente.waits_until(waiting bigint, waiting_step text) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE AS $$
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

-- Send a signal to a task, which receives it once, now or when it asks for it. Returns the signal's
-- id; with a key, that of the first one that was sent with it.
CREATE FUNCTION regente.signal(
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
