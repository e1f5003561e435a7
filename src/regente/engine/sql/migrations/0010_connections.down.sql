ALTER TABLE regente.runners DROP COLUMN connections;
