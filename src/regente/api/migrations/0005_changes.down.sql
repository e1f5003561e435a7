ALTER TABLE regente.actions DROP COLUMN changes;
