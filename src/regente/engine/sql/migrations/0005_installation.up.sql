-- One row: a random id of this database, made once, and since when `idempotency_key` carries it. An
-- id that traces have used stays.
CREATE TABLE regente.installation (
  one   boolean PRIMARY KEY DEFAULT true CHECK (one),
  id    text NOT NULL DEFAULT gen_random_uuid()::text,
  since timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO regente.installation (id, since)
SELECT coalesce((SELECT value #>> '{}' FROM regente.settings WHERE key = 'installation_id'),
                gen_random_uuid()::text),
       CASE WHEN EXISTS (SELECT FROM regente.tasks) THEN regente.clock() ELSE '-infinity' END;
