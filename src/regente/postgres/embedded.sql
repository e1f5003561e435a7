-- Statements for the embedded server, run as its superuser.

-- name: database_exists
SELECT 1 FROM pg_database WHERE datname = 'regente';

-- name: create_database
CREATE DATABASE regente;

-- name: own_schema
-- The role has the schema's name: without this, objects that users create without a schema would
-- land among Regente's tables.
ALTER ROLE regente SET search_path = public;
