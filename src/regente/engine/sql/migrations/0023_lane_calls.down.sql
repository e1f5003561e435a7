CREATE OR REPLACE FUNCTION regente.running_in_lanes(lanes text[])
RETURNS TABLE (lane text, running bigint)
LANGUAGE plpgsql VOLATILE SET enable_bitmapscan = off AS $$
BEGIN
  RETURN QUERY SELECT wanted.name, (SELECT count(*) FROM regente.tasks t
                                    WHERE t.status = 'running' AND t.lane = wanted.name)
  FROM unnest(lanes) AS wanted (name);
END $$;
ALTER TABLE regente.lanes DROP COLUMN defaults;
DROP TABLE regente.lane_calls;
