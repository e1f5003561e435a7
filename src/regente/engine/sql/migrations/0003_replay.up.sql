-- `json` keeps a step's result as it was written: `jsonb` sorts the keys and makes an integer of
-- 1e22. Older code beside this one still inserts `jsonb`, which PostgreSQL casts. `call` says what
-- the step was called with; it is NULL where older code recorded the step.
ALTER TABLE regente.steps ADD COLUMN call text,
  ALTER COLUMN output TYPE json USING output::json;
