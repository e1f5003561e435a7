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

-- One row per bulk action. `done` counts the ids that were dealt with, in their order: whoever
-- takes it over goes on there.
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

-- What lists of missions and the audit ask for. Statistics tell the planner whether a filter leaves
-- so much that walking down the ids finds a page at once, or so little that it had better be looked
-- up in an index.
CREATE STATISTICS regente.missions_days ON (args ->> 'date_start') FROM regente.tasks;
CREATE STATISTICS regente.missions_media ON (args ->> 'media_type') FROM regente.tasks;
CREATE STATISTICS regente.missions_languages ON (args -> 'languages') FROM regente.tasks;
CREATE INDEX missions_by_status ON regente.tasks (status, id) WHERE pipeline = 'missions';
CREATE INDEX missions_by_day ON regente.tasks ((args ->> 'date_start'), id)
    WHERE pipeline = 'missions';
CREATE INDEX missions_by_media ON regente.tasks ((args ->> 'media_type'), id)
    WHERE pipeline = 'missions';
CREATE INDEX missions_by_language ON regente.tasks USING gin ((args -> 'languages'))
    WHERE pipeline = 'missions';
CREATE INDEX missions_by_error ON regente.tasks (error_code, id) WHERE pipeline = 'missions'
    AND error_code IS NOT NULL;
CREATE INDEX missions_begun ON regente.tasks (id) WHERE pipeline = 'missions' AND status = 'queued'
    AND attempt > 0;
CREATE INDEX mission_runs_by_worker ON regente.mission_runs (worker_id, mission_id)
    WHERE worker_id IS NOT NULL;
CREATE INDEX mission_runs_by_worker_and_day ON regente.mission_runs (worker_id, day, mission_id)
    WHERE worker_id IS NOT NULL;
CREATE INDEX mission_runs_by_proxy ON regente.mission_runs (proxy_used, mission_id)
    WHERE proxy_used IS NOT NULL;
CREATE INDEX mission_runs_by_proxy_and_day ON regente.mission_runs (proxy_used, day, mission_id)
    WHERE proxy_used IS NOT NULL;
CREATE INDEX mission_runs_by_checkpoint ON regente.mission_runs (checkpoint, mission_id)
    WHERE checkpoint IS NOT NULL;
CREATE INDEX events_of_operators ON regente.events (txid, id) WHERE event = 'operator_action';
