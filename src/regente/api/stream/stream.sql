-- Queries of the stream. Events are ordered by (txid, id) and read below the horizon only.

-- name: stream_start
-- The position so many events before the newest readable one.
SELECT coalesce(max(e.txid::text), '0') AS txid, coalesce(max(e.id), 0) AS id
FROM (SELECT f.txid, f.id FROM regente.events f
      WHERE f.txid < pg_snapshot_xmin(pg_current_snapshot())
      ORDER BY f.txid DESC, f.id DESC OFFSET %(back)s LIMIT 1) AS e

-- name: stream_page
-- The events after a position, with their tasks' pipelines: a subquery for each, as a join could
-- read the whole history.
WITH page AS MATERIALIZED (
  SELECT e.txid, e.id, e.at, e.task_id, e.batch_id, e.runner_id, e.attempt, e.event, e.details
  FROM regente.events e
  WHERE (e.txid, e.id) > (%(after_txid)s::xid8, %(after_id)s::bigint)
    AND e.txid < pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY e.txid, e.id LIMIT %(limit)s
)
SELECT e.txid::text AS txid, e.id, e.at, e.task_id, e.batch_id, e.runner_id, e.attempt, e.event,
       e.details,
       (SELECT t.pipeline FROM regente.tasks t WHERE t.id = e.task_id) AS pipeline
FROM page e ORDER BY e.txid, e.id

-- name: stream_bounds
-- The position up to which events may have been deleted, and the next transaction id.
SELECT coalesce(s.value ->> 'txid', '0') AS floor_txid,
       coalesce((s.value ->> 'id')::bigint, 0) AS floor_id,
       pg_snapshot_xmax(pg_current_snapshot())::text AS next_txid
FROM (VALUES (1)) AS one LEFT JOIN regente.settings s ON s.key = 'feed_floor'

-- name: stream_keys
SELECT k.id FROM regente.api_keys k
WHERE k.id = ANY (%(ids)s::text[]) AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > regente.clock())
