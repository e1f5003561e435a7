ALTER TABLE regente.runners DROP COLUMN lease, DROP COLUMN amnesties;
