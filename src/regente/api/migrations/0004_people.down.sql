ALTER TABLE regente.api_keys DROP COLUMN scopes;
DROP TABLE regente.oidc_sign_ins;
DELETE FROM regente.api_sessions WHERE key_id IS NULL;
ALTER TABLE regente.api_sessions
  DROP CONSTRAINT one_owner, DROP COLUMN person_id, DROP COLUMN id_token,
  ALTER COLUMN key_id SET NOT NULL;
DROP TABLE regente.people;
