-- The register of applied migrations.

-- name: create_migrations_table
DO $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('regente.migrations'));
  CREATE SCHEMA IF NOT EXISTS regente;
  CREATE TABLE IF NOT EXISTS regente.migrations (
    component  text NOT NULL,
    version    integer NOT NULL,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (component, version)
  );
  -- Older databases have one stream for all, each migration with the name of its component.
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'regente.migrations'::regclass
                 AND attname = 'component') THEN
    ALTER TABLE regente.migrations DROP CONSTRAINT migrations_pkey, ADD COLUMN component text;
    UPDATE regente.migrations SET component = name, version = 1;
    ALTER TABLE regente.migrations ADD PRIMARY KEY (component, version);
  END IF;
END $$

-- name: migrations_table
SELECT to_regclass('regente.migrations')

-- name: applied_migrations
-- Also from the table as older programs made it, without a column for the component.
SELECT coalesce(to_jsonb(m) ->> 'component', m.name) AS component,
       CASE WHEN to_jsonb(m) ? 'component' THEN m.version ELSE 1 END AS version, m.applied_at
FROM regente.migrations m ORDER BY component, version

-- name: lock_migrations
SELECT pg_advisory_xact_lock(hashtext('regente.migrations'))

-- name: try_lock_outside
-- For migrations outside of a transaction. Without waiting: an index that is built concurrently
-- waits for every statement that was there before.
SELECT pg_try_advisory_lock(hashtext('regente.migrations.outside'))

-- name: unlock_outside
SELECT pg_advisory_unlock(hashtext('regente.migrations.outside'))

-- name: short_locks
SELECT set_config('lock_timeout', '2s', true)

-- name: record_migration
INSERT INTO regente.migrations (component, version, name)
VALUES (%(component)s, %(version)s, %(name)s)

-- name: unrecord_migration
DELETE FROM regente.migrations
WHERE component = %(component)s AND version = %(version)s AND name = %(name)s
