-- The HTTP API: who may come in, and what was asked for in bulk.
--
-- A key, a console session and a sign-in link are random texts of 256 bits; the database knows
-- their SHA-256 only. A session and a link belong to a key and end with it.

CREATE TYPE regente.api_role AS ENUM (
  'viewer',    -- looks
  'operator',  -- also acts on missions, batches, tasks, failures, runners and the orchestrator
  'admin'      -- also changes the fleet, the settings and the keys
);

CREATE TABLE regente.api_keys (
  id           text PRIMARY KEY DEFAULT 'key_' || substr(md5(gen_random_uuid()::text), 1, 12),
  name         varchar(100) NOT NULL,
  prefix       text NOT NULL,          -- its first characters, by which people know it again
  hash         bytea NOT NULL UNIQUE,
  role         regente.api_role NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT regente.clock(),
  created_by   text NOT NULL,
  expires_at   timestamptz,
  last_used_at timestamptz,            -- to the minute
  revoked_at   timestamptz,
  revoked_by   text
);
CREATE UNIQUE INDEX api_keys_one_per_name ON regente.api_keys (name) WHERE revoked_at IS NULL;

CREATE TABLE regente.api_sessions (
  hash         bytea PRIMARY KEY,
  key_id       text NOT NULL REFERENCES regente.api_keys ON DELETE CASCADE,
  created_at   timestamptz NOT NULL DEFAULT regente.clock(),
  expires_at   timestamptz NOT NULL,
  last_used_at timestamptz
);
CREATE INDEX api_sessions_of_key ON regente.api_sessions (key_id);

CREATE TABLE regente.sign_in_tokens (
  hash       bytea PRIMARY KEY,
  key_id     text NOT NULL REFERENCES regente.api_keys ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT regente.clock(),
  created_by text NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at    timestamptz
);

CREATE TYPE regente.action_status AS ENUM ('running', 'completed', 'failed');

-- One row per bulk action. `done` counts the ids that were dealt with, in their order; a
-- process that takes the action over continues there.
CREATE TABLE regente.actions (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind        text NOT NULL,
  by          text NOT NULL,
  reason      text,
  request_id  text,
  filter      jsonb,
  ids         bigint[] NOT NULL,
  total       integer NOT NULL,
  done        integer NOT NULL DEFAULT 0,
  changed     integer NOT NULL DEFAULT 0,
  status      regente.action_status NOT NULL DEFAULT 'running',
  error       text,
  owner       text NOT NULL,
  lease_until timestamptz NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT regente.clock(),
  finished_at timestamptz,
  CONSTRAINT ended_is_finished CHECK ((status <> 'running') = (finished_at IS NOT NULL))
);
CREATE INDEX actions_open ON regente.actions (lease_until) WHERE status = 'running';

-- What the audit of operators asks for.
CREATE INDEX events_of_operators ON regente.events (txid, id) WHERE event = 'operator_action';
