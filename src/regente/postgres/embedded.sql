-- The embedded server's own few statements, run as its superuser.

-- name: database_exists
SELECT 1 FROM pg_database WHERE datname = 'regente';

-- name: create_database
CREATE DATABASE regente;
