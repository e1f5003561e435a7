-- The register of applied migrations.

-- name: create_migrations_table
DO $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('regente.migrations'));
  CREATE SCHEMA IF NOT EXISTS regente;
  CREATE TABLE IF NOT EXISTS regente.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
  );
END $$

-- name: migrations_table
SELECT to_regclass('regente.migrations')

-- name: applied_migrations
SELECT version, applied_at FROM regente.migrations ORDER BY version

-- name: lock_migrations
SELECT pg_advisory_xact_lock(hashtext('regente.migrations'))

-- name: short_locks
SELECT set_config('lock_timeout', '2s', true)

-- name: record_migration
INSERT INTO regente.migrations (version, name) VALUES (%(version)s, %(name)s)

-- name: unrecord_migration
DELETE FROM regente.migrations WHERE version = %(version)s AND name = %(name)s
