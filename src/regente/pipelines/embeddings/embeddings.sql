The statements of the pipeline `embeddings`. Hashes travel as hexadecimal text.

-- name: missing
-- The contents that have no vector yet.
SELECT wanted.hash
FROM unnest(%(hashes)s::text[]) AS wanted (hash)
WHERE NOT EXISTS (
  SELECT FROM regente.embeddings AS e WHERE e.model = %(model)s
      AND e.content_hash = decode(wanted.hash, 'hex')
);

-- name: reserve
-- Reserves contents without a reservation, or with one of an attempt that is not running any more.
-- Reservations are locked in the order of their hashes, here (those of others, too) and wherever
-- they are released, so that attempts do not deadlock: the one that failed after the provider's
-- answer would pay again.
INSERT INTO regente.embedding_reservations AS reserved (content_hash, task_id, attempt)
SELECT decode(wanted.hash, 'hex'), %(task_id)s, %(attempt)s
FROM unnest(%(hashes)s::text[]) AS wanted (hash)
ORDER BY decode(wanted.hash, 'hex')
ON CONFLICT (content_hash) DO UPDATE SET task_id = EXCLUDED.task_id, attempt = EXCLUDED.attempt
WHERE reserved.task_id = EXCLUDED.task_id OR NOT EXISTS (
  SELECT FROM regente.tasks AS t WHERE t.id = reserved.task_id AND t.attempt = reserved.attempt
      AND t.status = 'running'
)
RETURNING encode(reserved.content_hash, 'hex') AS hash;

-- name: give_up_reservations
WITH ours AS MATERIALIZED (
  SELECT reserved.content_hash
  FROM regente.embedding_reservations AS reserved
  JOIN unnest(%(hashes)s::text[]) AS wanted (hash)
    ON reserved.content_hash = decode(wanted.hash, 'hex')
  WHERE reserved.task_id = %(task_id)s
  ORDER BY reserved.content_hash FOR UPDATE OF reserved
)
DELETE FROM regente.embedding_reservations AS reserved USING ours
    WHERE reserved.content_hash = ours.content_hash;

-- name: clear_reservations
-- Of attempts that are not running any more, except those that another task is taking over.
WITH dead AS MATERIALIZED (
  SELECT reserved.content_hash
  FROM regente.embedding_reservations AS reserved
  WHERE NOT EXISTS (
    SELECT FROM regente.tasks AS t WHERE t.id = reserved.task_id AND t.attempt = reserved.attempt
        AND t.status = 'running'
  )
  FOR UPDATE OF reserved SKIP LOCKED
)
DELETE FROM regente.embedding_reservations AS reserved USING dead
    WHERE reserved.content_hash = dead.content_hash;

-- name: know_model
INSERT INTO regente.embedding_models (model, dimensions)
    VALUES (%(model)s, %(dimensions)s) ON CONFLICT (model) DO NOTHING;

-- name: model_dimensions
SELECT dimensions FROM regente.embedding_models WHERE model = %(model)s;

-- name: store
INSERT INTO regente.embeddings (model, content_hash, text, norm, vector, task_id)
SELECT %(model)s, decode(new.hash, 'hex'), new.text, new.norm, new.vector::real[], %(task_id)s
FROM unnest(%(hashes)s::text[], %(texts)s::text[], %(norms)s::real[], %(vectors)s::text[])
    AS new (hash, text, norm, vector)
ORDER BY decode(new.hash, 'hex')
ON CONFLICT (model, content_hash) DO NOTHING;

-- name: stored_by
-- How many of these contents the task stored, in any attempt.
SELECT count(*) AS count
FROM unnest(%(hashes)s::text[]) AS wanted (hash)
JOIN regente.embeddings AS e ON e.model = %(model)s AND e.content_hash = decode(wanted.hash, 'hex')
WHERE e.task_id = %(task_id)s;

-- name: vector_of
SELECT vector::real[] AS vector FROM regente.embeddings
WHERE model = %(model)s AND content_hash = decode(%(hash)s, 'hex');

-- name: models
SELECT m.model, m.dimensions, count(e.id) AS vectors, max(e.created_at) AS newest_at
FROM regente.embedding_models AS m
LEFT JOIN regente.embeddings AS e USING (model)
GROUP BY m.model ORDER BY m.model;

-- name: size
SELECT pg_total_relation_size('regente.embeddings') AS bytes;

-- name: list
SELECT id, model, text, created_at, task_id
FROM regente.embeddings
WHERE (%(model)s::text IS NULL OR model = %(model)s)
  AND (%(before_id)s::bigint IS NULL OR id < %(before_id)s)
ORDER BY id DESC LIMIT %(limit)s;

-- name: count_up_to
SELECT count(*) AS count FROM (SELECT FROM regente.embeddings
                               WHERE model = %(model)s LIMIT %(limit)s) AS found;

-- name: be_quick
SELECT set_config('statement_timeout', %(milliseconds)s::text, true);

-- name: nearest_by_array
-- Exact: the cosine with every vector of the model.
SELECT e.id, e.text, e.created_at, d.dot / (e.norm::double precision * %(norm)s) AS similarity
FROM regente.embeddings AS e
CROSS JOIN LATERAL (
  SELECT sum(pair.a::double precision * pair.b) AS dot
  FROM unnest(e.vector, %(vector)s::real[]) AS pair (a, b)
) AS d
WHERE e.model = %(model)s
ORDER BY similarity DESC, e.id LIMIT %(limit)s;

-- name: nearest_by_pgvector
-- Exact without an index, nearly so with one; the expression and the condition are those of
-- `create_index`.
SELECT e.id, e.text, e.created_at,
  1 - ((e.vector::{schema}.vector({dimensions}))
       OPERATOR({schema}.<=>) %(vector)s::real[]::{schema}.vector) AS similarity
FROM regente.embeddings AS e
WHERE e.model = {model}
ORDER BY (e.vector::{schema}.vector({dimensions}))
         OPERATOR({schema}.<=>) %(vector)s::real[]::{schema}.vector
LIMIT %(limit)s;

-- name: column_type
-- The type that vectors have in this database, and the schema of the type.
SELECT t.typname AS type, n.nspname AS schema
FROM pg_attribute AS a
JOIN pg_type AS t ON t.oid = a.atttypid
JOIN pg_namespace AS n ON n.oid = t.typnamespace
WHERE a.attrelid = 'regente.embeddings'::regclass AND a.attname = 'vector';

-- name: extension
-- The schema of pgvector, if it is installed, and whether it is available.
SELECT
  (SELECT n.nspname FROM pg_extension AS x JOIN pg_namespace AS n ON n.oid = x.extnamespace
   WHERE x.extname = 'vector') AS schema,
  EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS available;

-- name: alone
-- One process at a time converts the column.
SELECT pg_advisory_xact_lock(hashtext('regente.embeddings.vector')),
       set_config('lock_timeout', '5s', true);

-- name: create_extension
CREATE EXTENSION IF NOT EXISTS vector;

-- name: use_pgvector
ALTER TABLE regente.embeddings ALTER COLUMN vector TYPE {schema}.vector
    USING vector::{schema}.vector;

-- name: create_index
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON regente.embeddings
USING hnsw ((vector::{schema}.vector({dimensions})) {schema}.vector_cosine_ops)
    WHERE model = {model};

-- name: known_models
SELECT model, dimensions FROM regente.embedding_models;
