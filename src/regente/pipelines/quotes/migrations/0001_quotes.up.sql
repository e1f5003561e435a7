-- Quotes: what was asked, what came out, and the evidence for it.
--
-- A quote is a task of the pipeline `quotes`, under the same id: its checkpoint, heartbeat,
-- attempts and paid answers are the task's and its steps'. These rows are the business record. They
-- stay when the task is forgotten, so nothing here refers to it.

CREATE TABLE regente.quotes (
  id           bigint PRIMARY KEY,
  batch_id     bigint,
  lot          varchar(200),
  reference    varchar(100),          -- the caller's own number for it
  description  text NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT regente.clock(),
  kind         text CHECK (kind IN ('vehicle', 'product')),
  search_query text,
  value        numeric(14, 2) CHECK (value > 0),
  currency     char(3),
  statistics   jsonb,
  analysis     jsonb,
  completed_at timestamptz,
  CHECK ((value IS NULL) = (statistics IS NULL)),
  CHECK ((value IS NULL) = (completed_at IS NULL))
);
CREATE INDEX quotes_of_lot ON regente.quotes (batch_id, id) WHERE batch_id IS NOT NULL;

-- One row per source that was looked at, with or without a price.
CREATE TABLE regente.quote_sources (
  quote_id    bigint NOT NULL REFERENCES regente.quotes ON DELETE CASCADE,
  position    integer NOT NULL,
  source      text NOT NULL,
  title       text NOT NULL,
  url         text,
  price       numeric(14, 2),
  currency    char(3),
  method      text,
  excerpt     text,                   -- the place where the price stood
  page_sha256 text,
  fetched_at  timestamptz NOT NULL,
  error       text,
  outlier     boolean NOT NULL DEFAULT false,
  details     jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (quote_id, position)
);
