-- A batch has a ledger: `total` tasks were accepted, and the counts of its tasks by state add up to
-- it.

-- name: open_batch
INSERT INTO regente.batches (name, stall_after, max_resumes, details)
VALUES (%(name)s, make_interval(secs => %(stall_after_seconds)s::double precision), %(max_resumes)s,
        %(details)s::jsonb)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id

-- name: add_to_batch
-- Locks the batch's row until the tasks are committed, so that no review closes it in between.
WITH before AS (SELECT id, status FROM regente.batches WHERE id = %(batch_id)s FOR UPDATE),
grown AS (
  UPDATE regente.batches b
  SET total = total + %(count)s, progress_at = regente.clock(),
      status = CASE WHEN b.status >= 'completed' THEN 'running'
          ELSE b.status END, finished_at = NULL
  FROM before WHERE b.id = before.id AND %(count)s > 0 RETURNING b.id, before.status AS was
),
logged AS (
  INSERT INTO regente.events (batch_id, event) SELECT id, 'batch_reopened' FROM grown
  WHERE was >= 'completed'
)
SELECT id FROM before

-- name: batch_ledger
SELECT b.id, b.name, b.status::text AS status, b.total, b.resumes, b.max_resumes,
       extract(epoch FROM b.stall_after)::double precision AS stall_after_seconds, b.created_at,
       b.progress_at, b.finished_at,
       b.details, c.draft, c.queued, c.running, c.completed, c.failed, c.canceled, c.skipped,
       CASE WHEN c.finished > 0 AND c.finished < b.total AND b.status < 'completed'
            THEN extract(epoch FROM regente.clock() - b.created_at)::double precision
                 / c.finished * (b.total - c.finished)
       END AS eta_seconds,
       (SELECT t.pipeline FROM regente.tasks t WHERE t.batch_id = b.id LIMIT 1) AS pipeline
FROM (SELECT * FROM regente.batches b
      WHERE (%(id)s::bigint IS NULL OR b.id = %(id)s)
        AND (%(name)s::text IS NULL OR b.name = %(name)s)
        AND (%(before_id)s::bigint IS NULL OR b.id < %(before_id)s)
        AND (%(statuses)s::regente.batch_status[] IS NULL
             OR b.status = ANY (%(statuses)s::regente.batch_status[]))
      ORDER BY b.id DESC LIMIT %(limit)s) AS b
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE t.status = 'draft') AS draft,
         count(*) FILTER (WHERE t.status = 'queued') AS queued,
         count(*) FILTER (WHERE t.status = 'running') AS running,
         count(*) FILTER (WHERE t.status = 'completed') AS completed,
         count(*) FILTER (WHERE t.status = 'failed') AS failed,
         count(*) FILTER (WHERE t.status = 'canceled') AS canceled,
         count(*) FILTER (WHERE t.status = 'skipped') AS skipped,
         count(*) FILTER (WHERE t.status >= 'completed') AS finished
  FROM regente.tasks t WHERE t.batch_id = b.id) AS c
ORDER BY b.id DESC

-- name: review_batches
-- Review open batches: started, moved, stalled or completed? `touched` are those whose tasks the
-- caller has just ended; with `all_open` every open batch is reviewed. Rows that another review has
-- locked are skipped.
WITH open AS MATERIALIZED (
  SELECT b.*, b.id = ANY (%(touched)s::bigint[]) AS touched FROM regente.batches b
  WHERE b.status < 'completed' AND (%(all_open)s OR b.id = ANY (%(touched)s::bigint[]))
  ORDER BY b.id FOR UPDATE SKIP LOCKED
),
seen AS (
  SELECT open.*, l.moved_at,
    CASE WHEN NOT l.live
        AND (open.total > 0 OR open.progress_at < regente.clock() - open.stall_after)
        THEN 'completed'
         WHEN l.moved_at > regente.clock() - open.stall_after THEN 'running'
         WHEN greatest(open.progress_at, l.moved_at) < regente.clock() - open.stall_after AND l.due
           THEN CASE WHEN open.resumes >= open.max_resumes THEN 'failed' ELSE 'stalled' END
         ELSE open.status::text END::regente.batch_status AS verdict
  FROM open CROSS JOIN LATERAL (
    SELECT regente.batch_lives(open.id) AS live,
           CASE WHEN open.touched THEN regente.clock()
                ELSE (SELECT max(t.heartbeat_at) FROM regente.tasks t WHERE t.batch_id = open.id
                      AND t.status = 'running')
           END AS moved_at,
           EXISTS (SELECT FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline
                   WHERE t.batch_id = open.id AND t.status IN ('queued', 'running')
                     AND (t.status = 'running' OR t.run_at < regente.clock() - open.stall_after)
                     AND NOT coalesce(p.paused, false)) AS due) AS l
),
changed AS (
  UPDATE regente.batches b
  SET status = s.verdict, progress_at = greatest(b.progress_at, s.moved_at),
      finished_at = CASE WHEN s.verdict >= 'completed' THEN regente.clock() END
  FROM seen s WHERE b.id = s.id AND (s.verdict <> s.status OR s.moved_at > b.progress_at)
  RETURNING b.id, b.name, b.status, s.status AS was
),
given_up AS (
  UPDATE regente.tasks t
  SET status = 'failed', runner_id = NULL, finished_at = regente.clock(),
      error_code = 'BATCH_STALLED',
      error_message = 'its batch stalled more often than it may be resumed',
      cancel_requested_at = NULL
  FROM changed c WHERE c.status = 'failed' AND t.batch_id = c.id
      AND t.status IN ('queued', 'running')
  RETURNING t.id, t.batch_id, t.attempt, t.pipeline, t.error_message
),
failed AS (
  INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint)
  SELECT id, attempt, pipeline, 'stall', 'BATCH_STALLED', error_message,
         md5('BATCH_STALLED' || pipeline) FROM given_up
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, attempt, event)
  SELECT id, batch_id, attempt, 'task_failed' FROM given_up
  UNION ALL SELECT NULL, id, NULL, 'batch_' || status::text FROM changed WHERE status <> was
)
SELECT id, name, was::text, status::text FROM changed WHERE status <> was

-- name: resume_batch
-- Of two concurrent callers one finds the batch stalled and resumes it; the other finds it running
-- and changes nothing.
WITH stalled AS MATERIALIZED (
  SELECT id, stall_after FROM regente.batches WHERE id = %(batch_id)s
      AND status = 'stalled' FOR UPDATE
),
moved AS (
  UPDATE regente.batches b SET status = 'running', resumes = resumes + 1,
         progress_at = regente.clock()
  FROM stalled WHERE b.id = stalled.id AND b.status = 'stalled' RETURNING b.id, b.resumes
),
released AS (
  UPDATE regente.tasks t SET status = 'queued', runner_id = NULL, run_at = regente.clock()
  FROM stalled, moved
  WHERE t.batch_id = stalled.id AND t.status = 'running'
    AND t.heartbeat_at < regente.clock() - stalled.stall_after
    AND t.cancel_requested_at IS NULL
  RETURNING t.id, t.batch_id, t.attempt, t.pipeline
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, attempt, event, details)
  SELECT id, batch_id, attempt, 'task_recovered', '{"reason": "batch_resumed"}'::jsonb FROM released
  UNION ALL SELECT NULL, id, NULL, 'batch_resumed',
         jsonb_build_object('resumes', resumes) || coalesce(%(details)s::jsonb, '{}') FROM moved
),
woken AS (SELECT pg_notify('regente_queued', pipeline) FROM (
  SELECT DISTINCT t.pipeline FROM regente.tasks t JOIN moved ON moved.id = t.batch_id
  WHERE t.status IN ('queued', 'running')) AS p)
SELECT moved.id, moved.resumes, (SELECT count(*) FROM released) AS released,
       (SELECT count(*) FROM woken) AS woken FROM moved

-- name: batch_failures
SELECT id FROM regente.tasks
WHERE batch_id = %(batch_id)s AND status = 'failed'
  AND (%(codes)s::text[] IS NULL OR error_code = ANY (%(codes)s::text[]))
  AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s::bigint[]))
ORDER BY id

-- name: batch_rest
SELECT id FROM regente.tasks WHERE batch_id = %(batch_id)s AND status < 'completed' ORDER BY id

-- name: close_canceled_batch
WITH closed AS (
  UPDATE regente.batches b SET status = 'canceled', finished_at = regente.clock()
  WHERE b.id = %(batch_id)s AND b.status < 'completed' RETURNING b.id
)
INSERT INTO regente.events (batch_id, event, details) SELECT id, 'batch_canceled',
            %(details)s::jsonb FROM closed RETURNING batch_id
