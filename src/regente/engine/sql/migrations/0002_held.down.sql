DROP FUNCTION regente.is_held(timestamptz);
