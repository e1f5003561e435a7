-- A session has an id that its owner may see, and the address from which it began.
ALTER TABLE regente.api_sessions
  ADD COLUMN id text NOT NULL UNIQUE
      DEFAULT 'ses_' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 16),
  ADD COLUMN address text;
