ALTER TABLE regente.runners DROP COLUMN versions;
