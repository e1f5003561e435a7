Loads rows into the target. Names in braces are identifiers that psycopg fills in.

-- name: table_columns
SELECT attribute.attname, type.typname, type.typcategory::text, attribute.atthasdef
FROM pg_catalog.pg_attribute AS attribute
JOIN pg_catalog.pg_class AS class ON class.oid = attribute.attrelid
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_type AS type ON type.oid = attribute.atttypid
WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s AND class.relkind IN ('r', 'p')
  AND attribute.attnum > 0 AND NOT attribute.attisdropped AND attribute.attgenerated = ''
  AND attribute.attidentity <> 'a'
ORDER BY attribute.attnum

-- name: is_unique
SELECT true
FROM pg_catalog.pg_index AS index
JOIN pg_catalog.pg_class AS class ON class.oid = index.indrelid
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_attribute AS attribute ON attribute.attrelid = class.oid
    AND attribute.attnum = index.indkey[0]
WHERE namespace.nspname = %(schema)s AND class.relname = %(table)s
  AND attribute.attname = %(column)s
  AND index.indisunique AND index.indisvalid AND index.indnkeyatts = 1 AND index.indpred IS NULL

-- name: begin_batch
SELECT set_config('idle_in_transaction_session_timeout', %(idle)s, true),
       set_config('lock_timeout', %(lock)s, true),
  set_config('synchronous_commit', 'off', true)

-- name: make_staging
CREATE TEMPORARY TABLE regente_staging ON COMMIT DROP AS
SELECT {columns}, 0 AS regente_line FROM {target} WITH NO DATA

-- name: copy_staging
COPY pg_temp.regente_staging ({columns}) FROM STDIN

-- name: copy_staging_numbered
COPY pg_temp.regente_staging ({columns}, regente_line) FROM STDIN

-- name: upsert
INSERT INTO {target} ({columns}) SELECT {columns} FROM pg_temp.regente_staging
ON CONFLICT ({key}) DO UPDATE SET {assignments}

-- name: insert
WITH stored AS (
  INSERT INTO {target} ({columns}) SELECT {columns} FROM pg_temp.regente_staging
  ORDER BY regente_line
  ON CONFLICT ({key}) DO NOTHING
  RETURNING {key} AS key
)
SELECT (SELECT count(*) FROM stored), coalesce(array_agg(regente_line), '{{}}')
FROM pg_temp.regente_staging AS staged
WHERE NOT EXISTS (SELECT FROM stored WHERE stored.key = staged.{key})

-- name: empty_staging
DELETE FROM pg_temp.regente_staging

-- name: drop_staging
DROP TABLE pg_temp.regente_staging
