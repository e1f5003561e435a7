ALTER TABLE regente.runners ALTER COLUMN id DROP DEFAULT,
  ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY;
DROP FUNCTION regente.random_id();
DROP FUNCTION regente.enter_timeline();
DROP FUNCTION regente.timeline();
DROP FUNCTION regente.timeline_name();
DROP FUNCTION regente.cluster_id();
DROP TABLE regente.timelines;
