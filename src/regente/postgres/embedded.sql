-- The embedded server's own few statements, run as its superuser.

-- name: database_exists
SELECT 1 FROM pg_database WHERE datname = 'regente';

-- name: create_database
CREATE DATABASE regente;

-- name: own_schema
-- The role bears the schema's name: without this, what users create without naming a schema would
-- land among our tables.
ALTER ROLE regente SET search_path = public;
