-- Lanes: what shares a limit, such as a target host, a tenant or an API key. A task in a lane
-- waits in the queue of its lane: its `run_at` lies where no claim of the pipeline's own queue
-- looks, also one of older code, and `lane_run_at` says when it is due. Nothing changes for the
-- other tasks.
CREATE FUNCTION regente.in_lane() RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '3500-01-01 00:00:00+00'::timestamptz;

ALTER TABLE regente.tasks ADD COLUMN lane text, ADD COLUMN lane_run_at timestamptz;
-- Not valid: only new rows are checked, and the table is not read.
ALTER TABLE regente.tasks ADD CONSTRAINT lanes_have_their_own_queue CHECK (
  CASE WHEN lane IS NULL THEN lane_run_at IS NULL
       ELSE lane_run_at IS NOT NULL AND run_at = '3500-01-01 00:00:00+00'::timestamptz END
) NOT VALID;

ALTER TABLE regente.schedules ADD COLUMN lane text;

-- The limits of a pipeline's lanes, unless a lane has its own.
ALTER TABLE regente.pipelines ADD COLUMN lane_concurrency integer,
  ADD COLUMN lane_rate double precision, ADD COLUMN lane_burst integer,
  ADD COLUMN lane_min_rate double precision, ADD COLUMN lane_weight integer,
  ADD COLUMN lane_breaker integer;

CREATE TYPE regente.breaker_state AS ENUM (
  'closed',   -- tasks start                                     → open
  'open',     -- parked after a run of failures                  → probing, closed
  'probing'   -- one task runs, which closes or opens it again   → closed, open
);

CREATE TABLE regente.lanes (
  name          text PRIMARY KEY,
  pipeline      text NOT NULL,  -- that opened it: its defaults count
  concurrency   integer CHECK (concurrency > 0),
  rate          double precision CHECK (rate > 0),
  burst         integer CHECK (burst > 0),
  min_rate      double precision CHECK (min_rate > 0),
  weight        integer CHECK (weight > 0),
  breaker       integer CHECK (breaker >= 0),  -- 0: it never opens
  pace          double precision NOT NULL DEFAULT 1 CHECK (pace > 0 AND pace <= 1),
  slowed_at     timestamptz,
  tokens_until  timestamptz,    -- until when the rate's tokens are used up; earlier ones are free
  parked_until  timestamptz,
  parked_because text,
  failures      integer NOT NULL DEFAULT 0,
  opened        integer NOT NULL DEFAULT 0,  -- how often since it was last closed
  breaker_state regente.breaker_state NOT NULL DEFAULT 'closed',
  probe_id      bigint,
  created_at    timestamptz NOT NULL DEFAULT regente.clock(),
  used_at       timestamptz NOT NULL DEFAULT regente.clock(),
  CONSTRAINT probing_has_a_probe CHECK ((breaker_state = 'probing') = (probe_id IS NOT NULL))
) WITH (fillfactor = 50);

-- What waits in a lane for one pipeline. `ready_at` is its place among the lanes that wait for a
-- runner, or when it will be ready; NULL: nothing is due, or the lane is full.
CREATE TABLE regente.lane_queues (
  lane       text NOT NULL,
  pipeline   text NOT NULL,
  ready_at   timestamptz,
  visited_at timestamptz,
  turn_left  integer NOT NULL DEFAULT 0,  -- tasks that it may still take in its present turn
  taken      integer NOT NULL DEFAULT 0,  -- at the last visit
  per_second double precision,            -- taken, a moving average of a minute
  PRIMARY KEY (lane, pipeline)
) WITH (fillfactor = 50);
CREATE INDEX lane_queues_ready ON regente.lane_queues (pipeline, ready_at)
    WHERE ready_at IS NOT NULL;

-- How many tasks run in each of these lanes. Volatile, so that it counts with a snapshot of its
-- own: one taken after the caller has locked the lanes. The statement's own snapshot may be older,
-- and miss what the claim before has just started. Without bitmaps, which step over the entries of
-- finished tasks again each time.
CREATE FUNCTION regente.running_in_lanes(lanes text[]) RETURNS TABLE (lane text, running bigint)
LANGUAGE plpgsql VOLATILE SET enable_bitmapscan = off AS $$
BEGIN
  RETURN QUERY SELECT wanted.name, (SELECT count(*) FROM regente.tasks t
                                    WHERE t.status = 'running' AND t.lane = wanted.name)
  FROM unnest(lanes) AS wanted (name);
END $$;

-- As before; a task in a lane is due there. Its lane is looked at by the client, or by a sweep.
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
  UPDATE regente.tasks t
  SET run_at = CASE WHEN t.lane IS NULL THEN regente.clock() ELSE t.run_at END,
      lane_run_at = CASE WHEN t.lane IS NOT NULL THEN regente.clock() END
  WHERE t.id = signal.task_id AND t.status = 'queued'
    AND coalesce(t.lane_run_at, t.run_at) > regente.clock()
    AND EXISTS (SELECT FROM regente.waits w WHERE w.task_id = t.id AND w.attempt = t.attempt
                AND w.signal = signal.name);
  IF FOUND THEN
    PERFORM pg_notify('regente_queued', concat_ws(' ', target.pipeline, target.priority, 0,
                                                  extract(epoch FROM regente.clock())));
  END IF;
  RETURN sent;
END $$;

-- As before, with parents in lanes.
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
    SELECT t.pipeline, t.priority, t.status, t.lane INTO parent FROM regente.tasks t
    WHERE t.id = wait.parent_id FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      missed := missed + (EXISTS (SELECT FROM regente.tasks t WHERE t.id = wait.parent_id))::int;
      CONTINUE;
    END IF;
    UPDATE regente.tasks t
    SET run_at = CASE WHEN t.lane IS NULL THEN regente.clock() ELSE t.run_at END,
        lane_run_at = CASE WHEN t.lane IS NOT NULL THEN regente.clock() END
    WHERE t.id = wait.parent_id AND t.status = 'queued'
      AND coalesce(t.lane_run_at, t.run_at) > regente.clock()
      AND EXISTS (SELECT FROM regente.waits w WHERE w.task_id = t.id AND w.attempt = t.attempt
                  AND w.batch_id = wait.batch_id);
    IF FOUND AND parent.lane IS NOT NULL THEN
      UPDATE regente.lane_queues q SET ready_at = regente.clock()
      WHERE q.lane = parent.lane AND q.pipeline = parent.pipeline
        AND (q.ready_at IS NULL OR q.ready_at > regente.clock());
      PERFORM pg_notify('regente_lanes', concat_ws(' ', parent.pipeline, 0));
    ELSIF FOUND THEN
      PERFORM pg_notify('regente_queued', concat_ws(' ', parent.pipeline, parent.priority, 0,
                                                    extract(epoch FROM regente.clock())));
    END IF;
  END LOOP;
  RETURN missed;
END $$;
