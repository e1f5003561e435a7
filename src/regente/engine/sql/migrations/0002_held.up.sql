-- Whether a task waits to be released: no schedule reaches beyond this year. Held tasks have the
-- `run_at` of HELD in engine/holding.py.
CREATE FUNCTION regente.is_held(run_at timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN run_at > '4000-01-01 00:00:00+00'::timestamptz;
