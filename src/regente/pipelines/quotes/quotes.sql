-- Queries of quotes.

-- name: new_quotes
-- A quote that was submitted before with the same reference has its row already.
INSERT INTO regente.quotes (id, batch_id, lot, reference, description)
SELECT n.id, t.batch_id, %(lot)s, n.reference, n.description
FROM unnest(%(ids)s::bigint[], %(descriptions)s::text[], %(references)s::text[])
    AS n (id, description, reference)
JOIN regente.tasks t ON t.id = n.id
ON CONFLICT (id) DO NOTHING

-- name: put_result
-- A quote that was enqueued without `QuoteOperations` gets its row now.
INSERT INTO regente.quotes AS q
  (id, batch_id, lot, reference, description, kind, search_query, value, currency, statistics,
   analysis, completed_at)
VALUES (%(id)s, %(batch_id)s, (SELECT b.name FROM regente.batches b WHERE b.id = %(batch_id)s),
        %(reference)s, %(description)s,
        %(kind)s, %(search_query)s, %(value)s, %(currency)s, %(statistics)s::jsonb,
        %(analysis)s::jsonb,
        CASE WHEN %(value)s::numeric IS NOT NULL THEN regente.clock() END)
ON CONFLICT (id) DO UPDATE
SET kind = excluded.kind, search_query = excluded.search_query, value = excluded.value,
    currency = excluded.currency,
    statistics = excluded.statistics, analysis = excluded.analysis,
    completed_at = excluded.completed_at

-- name: put_screenshot
-- A quote that was enqueued without `QuoteOperations` gets its row now.
WITH quote AS (
  INSERT INTO regente.quotes (id, batch_id, lot, reference, description)
  VALUES (%(id)s, %(batch_id)s, (SELECT b.name FROM regente.batches b WHERE b.id = %(batch_id)s),
          %(reference)s, %(description)s)
  ON CONFLICT (id) DO NOTHING
)
INSERT INTO regente.quote_screenshots AS old (quote_id, position, page_sha256, png)
VALUES (%(id)s, %(position)s, %(page_sha256)s, %(png)s)
ON CONFLICT (quote_id, position) DO UPDATE SET page_sha256 = excluded.page_sha256,
  png = excluded.png

-- name: screenshot_of
SELECT h.png FROM regente.quote_screenshots h
JOIN regente.quote_sources s USING (quote_id, position, page_sha256)
WHERE h.quote_id = %(id)s AND h.position = %(position)s

-- name: put_sources
WITH gone AS (
  DELETE FROM regente.quote_sources WHERE quote_id = %(id)s
    AND position NOT IN (SELECT (s ->> 'position')::integer
                         FROM jsonb_array_elements(%(sources)s::jsonb) AS s)
)
INSERT INTO regente.quote_sources AS old
  (quote_id, position, source, title, url, price, currency, method, excerpt, page_sha256,
   fetched_at, error, outlier, details)
SELECT %(id)s, s.position, s.source, s.title, s.url, s.price, s.currency, s.method, s.excerpt,
       s.page_sha256, s.fetched_at, s.error,
       s.outlier, s.details
FROM jsonb_to_recordset(%(sources)s::jsonb) AS s (
  position integer, source text, title text, url text, price numeric, currency text, method text,
  excerpt text, page_sha256 text,
  fetched_at timestamptz, error text, outlier boolean, details jsonb)
ON CONFLICT (quote_id, position) DO UPDATE
SET source = excluded.source, title = excluded.title, url = excluded.url, price = excluded.price,
    currency = excluded.currency,
    method = excluded.method, excerpt = excluded.excerpt, page_sha256 = excluded.page_sha256,
    fetched_at = excluded.fetched_at,
    error = excluded.error, outlier = excluded.outlier, details = excluded.details

-- name: list_quotes
-- Newest first. A quote whose task was deleted by retention shows its result.
SELECT * FROM (
  SELECT q.id, q.description, q.reference, q.lot, q.batch_id, q.kind, q.value, q.currency,
         q.created_at,
         CASE WHEN t.id IS NOT NULL THEN regente.quote_status(t.status, t.attempt)
              WHEN q.completed_at IS NOT NULL THEN 'DONE' ELSE 'CANCELLED' END AS status,
         coalesce(t.checkpoint, CASE WHEN q.completed_at IS NOT NULL THEN 'COMPLETED' END)
             AS processing_checkpoint,
         t.progress AS tested,
         CASE WHEN t.status <> 'queued' THEN t.heartbeat_at END AS last_heartbeat,
         r.name AS worker_id,
         coalesce(t.attempt, 0) AS attempt_number,
         t.started_at, coalesce(t.finished_at, q.completed_at) AS completed_at, t.error_code,
         t.error_message,
         q.search_query, q.statistics, q.analysis
  FROM regente.quotes q LEFT JOIN regente.tasks t ON t.id = q.id LEFT
  JOIN regente.runners r ON r.id = t.runner_id
  WHERE (%(ids)s::bigint[] IS NULL OR q.id = ANY (%(ids)s::bigint[]))
    AND (%(before_id)s::bigint IS NULL OR q.id < %(before_id)s)
    AND (%(batch_id)s::bigint IS NULL OR q.batch_id = %(batch_id)s)
) AS found
WHERE %(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s::text[])
ORDER BY id DESC LIMIT %(limit)s

-- name: sources_of
SELECT s.position, s.source, s.title, s.url, s.price, s.currency, s.method, s.excerpt,
       s.page_sha256, s.fetched_at, s.error, s.outlier, s.details,
       EXISTS (SELECT FROM regente.quote_screenshots h
               WHERE h.quote_id = s.quote_id AND h.position = s.position
                 AND h.page_sha256 = s.page_sha256) AS screenshot
FROM regente.quote_sources s WHERE s.quote_id = %(id)s ORDER BY s.position

-- name: list_lots
-- The batches with quotes, newest first, with the sum of their quotes.
SELECT b.id, b.name, b.status::text AS status, b.total, b.created_at, b.finished_at, s.quoted,
       s.value, s.currency
FROM regente.batches b CROSS JOIN LATERAL (
  SELECT count(*) AS quotes, count(q.value) AS quoted, sum(q.value) AS value,
         min(q.currency) AS currency
  FROM regente.quotes q WHERE q.batch_id = b.id) AS s
WHERE (%(id)s::bigint IS NULL OR b.id = %(id)s) AND (%(before_id)s::bigint IS NULL
                                                     OR b.id < %(before_id)s)
  AND EXISTS (SELECT FROM regente.quotes q WHERE q.batch_id = b.id)
ORDER BY b.id DESC LIMIT %(limit)s
