-- The demo's own table, apart from the engine's schema: what is in it is the proof, whatever the engine believes.

-- name: create_sink
DO $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('regente_demo'));
  CREATE SCHEMA IF NOT EXISTS regente_demo;
  -- Without a unique key, on purpose: a price that is stored twice must be seen, not prevented.
  CREATE TABLE IF NOT EXISTS regente_demo.prices (
    batch     text NOT NULL,
    product   integer NOT NULL,
    cents     integer NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now()
  );
  CREATE INDEX IF NOT EXISTS prices_of_batch ON regente_demo.prices (batch, product);
END $$

-- name: store_price
INSERT INTO regente_demo.prices (batch, product, cents) VALUES (%(batch)s, %(product)s, %(cents)s)

-- name: stored_prices
SELECT product, cents FROM regente_demo.prices WHERE batch = %(batch)s

-- name: count_events
-- How often each thing happened to the batch's tasks.
SELECT event, count(*) FROM regente.events WHERE batch_id = %(batch_id)s AND task_id IS NOT NULL GROUP BY event

-- name: count_recovered
SELECT count(*) FROM regente.events
WHERE batch_id = %(batch_id)s AND event = 'task_recovered' AND runner_id = ANY (%(runners)s::bigint[])

-- name: count_held
SELECT count(*) FROM regente.tasks WHERE status = 'running' AND runner_id = %(runner)s AND batch_id = %(batch_id)s

-- name: count_burnt
-- Tasks that were throttled and have a failed attempt on their account for it: there must be none.
SELECT count(*) FROM regente.tasks t
WHERE t.batch_id = %(batch_id)s AND t.tries > 0 AND t.args ->> 'mood' = 'throttled'
