-- Removed members are deleted, and with them the sessions of removed workers.
DROP TRIGGER writers_keep_their_history ON regente.writers;
DROP TRIGGER proxies_keep_their_history ON regente.proxies;
DROP TRIGGER workers_keep_their_history ON regente.workers;
DROP FUNCTION regente.refuse_delete();
DELETE FROM regente.writers WHERE removed_at IS NOT NULL;
DELETE FROM regente.proxies WHERE removed_at IS NOT NULL;
DELETE FROM regente.workers WHERE removed_at IS NOT NULL;
DROP INDEX regente.writers_once_per_name;
DROP INDEX regente.proxies_once_per_name;
DROP INDEX regente.workers_once_per_name;
ALTER TABLE regente.writers ADD UNIQUE (name);
ALTER TABLE regente.proxies ADD UNIQUE (name);
ALTER TABLE regente.workers ADD UNIQUE (name);
ALTER TABLE regente.writers DROP COLUMN removed_at;
ALTER TABLE regente.proxies DROP COLUMN removed_at;
ALTER TABLE regente.workers DROP COLUMN removed_at;
