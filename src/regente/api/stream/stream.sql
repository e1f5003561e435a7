-- Queries of the stream. Events are ordered by (txid, id) and read below the horizon only.

-- name: stream_start
-- The position so many events before the newest readable one.
SELECT coalesce(max(e.txid::text), '0') AS txid, coalesce(max(e.id), 0) AS id
FROM (SELECT f.txid, f.id FROM regente.events f
      WHERE f.txid < pg_snapshot_xmin(pg_current_snapshot())
      ORDER BY f.txid DESC, f.id DESC OFFSET %(back)s LIMIT 1) AS e

-- name: stream_page
-- The timeline, and the events after a position, with their tasks' pipelines: a subquery for each,
-- as a join could read the whole history.
WITH page AS MATERIALIZED (
  SELECT e.txid, e.id, e.at, e.task_id, e.batch_id, e.runner_id, e.attempt, e.event, e.details
  FROM regente.events e
  WHERE (e.txid, e.id) > (%(after_txid)s::xid8, %(after_id)s::bigint)
    AND e.txid < pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY e.txid, e.id LIMIT %(limit)s
)
SELECT here.timeline, e.txid::text AS txid, e.id, e.at, e.task_id, e.batch_id, e.runner_id,
       e.attempt, e.event, e.details,
       (SELECT t.pipeline FROM regente.tasks t WHERE t.id = e.task_id) AS pipeline
FROM (SELECT regente.timeline() AS timeline) AS here LEFT JOIN page e ON true
ORDER BY e.txid, e.id

-- name: stream_bounds
-- The position up to which events may have been deleted, the next transaction id, the timeline.
SELECT coalesce(s.value ->> 'txid', '0') AS floor_txid,
       coalesce((s.value ->> 'id')::bigint, 0) AS floor_id,
       pg_snapshot_xmax(pg_current_snapshot())::text AS next_txid,
       regente.timeline() AS timeline, (SELECT count(*) FROM regente.timelines) AS timelines
FROM (VALUES (1)) AS one LEFT JOIN regente.settings s ON s.key = 'feed_floor'

-- name: stream_sessions
-- The sessions that `use_session` accepts.
SELECT s.id, coalesce(k.role, p.role)::text AS role
FROM regente.api_sessions s
LEFT JOIN regente.api_keys k ON k.id = s.key_id AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > regente.clock())
LEFT JOIN regente.people p ON p.id = s.person_id
WHERE s.id = ANY (%(ids)s::text[]) AND s.expires_at > regente.clock()
  AND coalesce(s.last_used_at, s.created_at)
      > regente.clock() - make_interval(secs => %(idle_seconds)s::double precision)
  AND coalesce(k.role, p.role) IS NOT NULL

-- name: stream_keys
SELECT k.id FROM regente.api_keys k
WHERE k.id = ANY (%(ids)s::text[]) AND k.revoked_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > regente.clock())
