ALTER TABLE regente.api_sessions DROP COLUMN id, DROP COLUMN address;
