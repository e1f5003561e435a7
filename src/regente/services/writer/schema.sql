The writer's own tables, and the table of ads that it creates on request.

-- name: create_schema
SELECT pg_advisory_xact_lock(7236478150021);

CREATE SCHEMA IF NOT EXISTS regente_writer;

CREATE TABLE IF NOT EXISTS regente_writer.jobs (
  job_id         text PRIMARY KEY,
  fingerprint    bytea NOT NULL,
  status         text NOT NULL DEFAULT 'processing'
      CHECK (status IN ('processing', 'completed', 'partial', 'failed')),
  target         jsonb NOT NULL,
  url            text NOT NULL,
  headers        jsonb,
  json_path      text NOT NULL,
  total          bigint,
  processed      bigint NOT NULL DEFAULT 0,
  success_count  bigint NOT NULL DEFAULT 0,
  failed_count   bigint NOT NULL DEFAULT 0,
  etag           text,
  source_length  bigint,
  error          text,
  error_code     text,
  lease_owner    text,
  lease_until    timestamptz,
  claims         integer NOT NULL DEFAULT 0,
  created_at     timestamptz NOT NULL DEFAULT now(),
  started_at     timestamptz,
  completed_at   timestamptz,
  CHECK (processed = success_count + failed_count),
  CHECK ((status = 'processing') = (completed_at IS NULL)),
  CHECK (status = 'processing' OR headers IS NULL)
);

-- Writers with the same key share their jobs; others in the same database do not see them.
ALTER TABLE regente_writer.jobs ADD COLUMN IF NOT EXISTS writer text;

CREATE INDEX IF NOT EXISTS jobs_unfinished ON regente_writer.jobs (created_at)
    WHERE status = 'processing';

CREATE TABLE IF NOT EXISTS regente_writer.failed_items (
  job_id  text NOT NULL REFERENCES regente_writer.jobs ON DELETE CASCADE,
  index   bigint NOT NULL,
  data    text NOT NULL,
  error   text NOT NULL,
  PRIMARY KEY (job_id, index)
);

-- name: create_ads
SELECT pg_advisory_xact_lock(7236478150021);

CREATE TABLE IF NOT EXISTS public.ads (
  id             text PRIMARY KEY,
  page_name      text,
  text           text,
  format         text,
  language       text,
  started_on     date,
  qtd_ads        integer,
  url            text,
  raw            jsonb,
  first_seen_at  timestamptz NOT NULL DEFAULT now(),
  last_seen_at   timestamptz NOT NULL DEFAULT now()
);
