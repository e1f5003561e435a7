DROP TRIGGER writers_begin_anew ON regente.writers;
DROP FUNCTION regente.begin_anew();
ALTER TABLE regente.writers
  DROP COLUMN failures, DROP COLUMN failed_jobs, DROP COLUMN rest_until,
  DROP COLUMN last_failed_at, DROP COLUMN error_code, DROP COLUMN error_message;
DROP INDEX regente.sessions_of_proxy;
ALTER TABLE regente.sessions DROP COLUMN completed, DROP COLUMN suspect, DROP COLUMN blamed;
ALTER TABLE regente.mission_runs DROP COLUMN avoid_since, DROP COLUMN avoid_writer_id;
