-- Calls of attempts in lanes. A call holds its place while its task is running by the attempt that
-- wrote the row: what a crash leaves behind counts no longer than that, and a sweep deletes it.
CREATE TABLE regente.lane_calls (
  task_id    bigint NOT NULL,
  attempt    integer NOT NULL,
  number     integer NOT NULL,  -- of the attempt's calls
  lane       text NOT NULL,
  entered_at timestamptz,       -- NULL: it waits for a place
  asked_at   timestamptz NOT NULL DEFAULT regente.clock(),
  PRIMARY KEY (task_id, attempt, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lane_calls_of_a_lane ON regente.lane_calls (lane);

-- The limits that the code gives for the calls of a lane, unless the lane has its own.
ALTER TABLE regente.lanes ADD COLUMN defaults jsonb;

-- As before, with the calls that hold a place.
CREATE OR REPLACE FUNCTION regente.running_in_lanes(lanes text[])
RETURNS TABLE (lane text, running bigint)
LANGUAGE plpgsql VOLATILE SET enable_bitmapscan = off AS $$
BEGIN
  RETURN QUERY SELECT wanted.name, (SELECT count(*) FROM regente.tasks t
                                    WHERE t.status = 'running' AND t.lane = wanted.name)
    + (SELECT count(*) FROM regente.lane_calls c
       WHERE c.lane = wanted.name AND c.entered_at IS NOT NULL
         AND EXISTS (SELECT FROM regente.tasks t WHERE t.id = c.task_id
                     AND t.attempt = c.attempt AND t.status IS NOT DISTINCT FROM 'running'))
  FROM unnest(lanes) AS wanted (name);
END $$;
