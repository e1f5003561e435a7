-- Embeddings: one vector for each distinct content, and who is embedding what right now.
--
-- `vector` is real[] at first. Where the extension pgvector is at hand, the column's type becomes
-- `vector`: statements that write real[] and read real[] work with either. No constraint may
-- therefore depend on its type.

CREATE TABLE regente.embedding_models (
  model      text PRIMARY KEY,
  dimensions integer NOT NULL CHECK (dimensions > 0),  -- of every vector of this model
  created_at timestamptz NOT NULL DEFAULT regente.clock()
);

CREATE TABLE regente.embeddings (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  model        text NOT NULL REFERENCES regente.embedding_models,
  content_hash bytea NOT NULL CHECK (length(content_hash) = 32),
  -- SHA-256 of model and normalised text
  text         text NOT NULL CHECK (text <> ''),
  norm         real NOT NULL CHECK (norm > 0 AND norm < 'Infinity'),
  vector       real[] NOT NULL,
  task_id      bigint NOT NULL,
  -- which stored it; tasks are forgotten sooner
  created_at   timestamptz NOT NULL DEFAULT regente.clock(),
  CONSTRAINT one_vector_per_content UNIQUE (model, content_hash)
);
ALTER TABLE regente.embeddings ALTER COLUMN vector SET STORAGE EXTERNAL;  -- floats do not compress

-- What a running attempt is having embedded, so that no other attempt pays for the same. A row
-- counts only while that attempt runs, so that nothing has to be cleaned up after a crash.
CREATE TABLE regente.embedding_reservations (
  content_hash bytea PRIMARY KEY,
  task_id      bigint NOT NULL,
  attempt      integer NOT NULL
);
