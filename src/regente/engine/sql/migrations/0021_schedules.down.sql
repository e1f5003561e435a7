-- Runs that wait for the previous one are dropped; what is paused stays disabled.
DROP FUNCTION regente.schedule_is_busy(text, bigint);
DROP FUNCTION regente.schedule_key(text, timestamptz);
DROP TABLE regente.schedule_runs;
ALTER TABLE regente.schedules DROP COLUMN overlap, DROP COLUMN catch_up, DROP COLUMN jitter,
  DROP COLUMN due_as, DROP COLUMN paused_at;
