-- name: installation
-- One random id per database, created by the first caller.
WITH made AS (
  INSERT INTO regente.settings (key, value)
      VALUES ('installation_id', to_jsonb(gen_random_uuid()::text))
  ON CONFLICT (key) DO NOTHING RETURNING value
)
SELECT value #>> '{}' AS id FROM made
UNION ALL
SELECT value #>> '{}' FROM regente.settings WHERE key = 'installation_id'
LIMIT 1
