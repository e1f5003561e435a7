ALTER TABLE regente.steps DROP COLUMN call, ALTER COLUMN output TYPE jsonb USING output::jsonb;
