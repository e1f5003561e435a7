-- Sign-in by OpenID Connect, and keys that reach some resources only.

-- A person of a provider. The role is that of their last sign-in; none: it was refused.
CREATE TABLE regente.people (
  id           text PRIMARY KEY
               DEFAULT 'usr_' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 16),
  issuer       text NOT NULL,
  subject      text NOT NULL,
  name         text NOT NULL,
  role         regente.api_role,
  created_at   timestamptz NOT NULL DEFAULT regente.clock(),
  signed_in_at timestamptz NOT NULL DEFAULT regente.clock(),
  UNIQUE (issuer, subject)
);

-- A session is a key's or a person's. The ID token is encrypted with the session's own token.
ALTER TABLE regente.api_sessions
  ALTER COLUMN key_id DROP NOT NULL,
  ADD COLUMN person_id text REFERENCES regente.people ON DELETE CASCADE,
  ADD COLUMN id_token bytea,
  ADD CONSTRAINT one_owner CHECK (num_nonnulls(key_id, person_id) = 1);
CREATE INDEX api_sessions_of_person ON regente.api_sessions (person_id);

-- A sign-in that waits for the browser to come back from the provider: the hash of its state.
CREATE TABLE regente.oidc_sign_ins (
  hash       bytea PRIMARY KEY,
  page       text NOT NULL,
  expires_at timestamptz NOT NULL
);

-- Tags of the API's resources; none: all of them.
ALTER TABLE regente.api_keys ADD COLUMN scopes text[];
