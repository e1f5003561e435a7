-- What a bulk action gives the tasks that it changes.
ALTER TABLE regente.actions ADD COLUMN changes jsonb;
