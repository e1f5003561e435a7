-- A batch has a ledger: `total` tasks were accepted, and the counts of its tasks by state add up to
-- it.

-- name: open_batch
-- One that is there is not touched: another session may have locked it.
WITH there AS MATERIALIZED (SELECT id FROM regente.batches WHERE name = %(name)s),
opened AS (
  INSERT INTO regente.batches (name, stall_after, max_resumes, details, on_complete)
  SELECT %(name)s, make_interval(secs => %(stall_after_seconds)s::double precision),
         %(max_resumes)s, %(details)s::jsonb, %(on_complete)s
  WHERE NOT EXISTS (SELECT FROM there)
  ON CONFLICT (name) DO UPDATE SET name = excluded.name
  RETURNING id
)
SELECT id FROM there UNION ALL SELECT id FROM opened

-- name: add_to_batch
-- Locks the batch's row until the tasks are committed, so that no review closes it in between.
WITH before AS (
  SELECT id, status FROM regente.batches
  WHERE id = %(batch_id)s
    AND (SELECT set_config('lock_timeout',
                           coalesce(%(within)s::text, current_setting('lock_timeout')), true))
        IS NOT NULL
  FOR UPDATE
),
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
       b.progress_at, b.finished_at, b.stall,
       b.details, b.on_complete, b.parent_id, b.parent_step, c.draft, c.queued, c.running,
       c.completed, c.failed, c.canceled, c.skipped,
       CASE WHEN c.finished > 0 AND c.finished < b.total AND b.status = 'running'
                AND regente.batch_is_served(b.id, '0')
            THEN extract(epoch FROM regente.clock() - b.created_at)::double precision
                 / c.finished * (b.total - c.finished)
       END AS eta_seconds,
       (SELECT t.pipeline FROM regente.tasks t WHERE t.batch_id = b.id LIMIT 1) AS pipeline
FROM (SELECT * FROM regente.batches b
      WHERE (%(id)s::bigint IS NULL OR b.id = %(id)s)
        AND (%(name)s::text IS NULL OR b.name = %(name)s)
        AND (%(before_id)s::bigint IS NULL OR b.id < %(before_id)s)
        AND (%(parent_id)s::bigint IS NULL OR b.parent_id = %(parent_id)s)
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
-- locked are skipped. The tasks of a batch are read only when nothing has moved for `stall_after`.
-- While a task is healthy for its pipeline, which may allow more time, its batch does not stall.
-- A batch fails only if a runner has served it in vain for so long; without one it stays stalled.
-- At each closing the task that the batch names (`on_complete`) is queued, once.
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
         WHEN greatest(open.progress_at, l.moved_at) < regente.clock() - open.stall_after
             AND NOT EXISTS (SELECT FROM regente.healthy_tasks(open.id))
             AND EXISTS (
               SELECT FROM (
                 SELECT w.pipeline FROM regente.tasks w
                 WHERE w.batch_id = open.id AND w.status = 'queued'
                   AND w.run_at < regente.clock() - open.stall_after
                 UNION ALL
                 SELECT q.pipeline
                 FROM (SELECT DISTINCT w.lane, w.pipeline FROM (
                         SELECT w.lane, w.pipeline FROM regente.tasks w
                         WHERE w.batch_id = open.id AND w.status = 'queued'
                           AND w.run_at = regente.in_lane() LIMIT 1000) AS w) AS sample
                 JOIN regente.lane_queues q
                   ON q.lane = sample.lane AND q.pipeline = sample.pipeline
                 WHERE q.ready_at < regente.clock() - open.stall_after
                 UNION ALL SELECT r.pipeline FROM regente.tasks r
                 WHERE r.batch_id = open.id AND r.status = 'running') AS t
               WHERE NOT EXISTS (SELECT FROM regente.pipelines p
                                 WHERE p.name = t.pipeline AND p.paused))
           THEN CASE WHEN open.resumes >= open.max_resumes
               AND regente.batch_is_served(open.id, open.stall_after)
               THEN 'failed' ELSE 'stalled' END
         ELSE open.status::text END::regente.batch_status AS verdict
  FROM open CROSS JOIN LATERAL (
    SELECT regente.batch_lives(open.id) AS live,
           CASE WHEN open.touched THEN regente.clock()
                ELSE (SELECT max(t.heartbeat_at) FROM regente.tasks t WHERE t.batch_id = open.id
                      AND t.status = 'running')
           END AS moved_at) AS l
),
changed AS (
  UPDATE regente.batches b
  SET status = s.verdict, progress_at = greatest(b.progress_at, s.moved_at),
      finished_at = CASE WHEN s.verdict >= 'completed' THEN regente.clock() END,
      closings = b.closings + (s.verdict >= 'completed')::int,
      stall = CASE WHEN s.verdict <> s.status AND s.verdict IN ('stalled', 'failed')
                   THEN regente.stall_of(b.id) ELSE b.stall END
  FROM seen s WHERE b.id = s.id AND (s.verdict <> s.status OR s.moved_at > b.progress_at)
  RETURNING b.id, b.name, b.status, s.status AS was, b.on_complete, b.closings, b.stall
),
follow_up AS (
  INSERT INTO regente.tasks (pipeline, args, key, queued_at)
  SELECT on_complete, jsonb_build_object('batch_id', id, 'batch', name, 'status', status,
                                         'closing', closings),
         format('batch %%s, closing %%s', id, closings), regente.clock()
  FROM changed WHERE on_complete IS NOT NULL AND status >= 'completed' AND status <> was
  ON CONFLICT (pipeline, key) WHERE key IS NOT NULL DO NOTHING
  RETURNING id, pipeline
),
rest AS MATERIALIZED (
  SELECT t.id, t.runner_id AS holder FROM changed c JOIN regente.tasks t ON t.batch_id = c.id
  WHERE c.status = 'failed' AND t.status IN ('queued', 'running') ORDER BY t.id FOR UPDATE OF t
),
given_up AS (
  UPDATE regente.tasks t
  SET status = 'failed', runner_id = NULL, finished_at = regente.clock(),
      error_code = 'BATCH_STALLED',
      error_message = 'its batch stalled more often than it may be resumed',
      cancel_requested_at = NULL
  FROM rest WHERE t.id = rest.id
  RETURNING t.id, t.batch_id, t.attempt, t.pipeline, t.error_message, rest.holder
),
failed AS (
  INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint)
  SELECT id, attempt, pipeline, 'stall', 'BATCH_STALLED', error_message,
         md5('BATCH_STALLED' || pipeline) FROM given_up
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, attempt, event, details)
  SELECT id, batch_id, attempt, 'task_failed', NULL::jsonb FROM given_up
  UNION ALL SELECT id, NULL, NULL, 'task_queued', NULL FROM follow_up
  UNION ALL SELECT NULL, id, NULL, 'batch_' || status::text,
                   CASE WHEN status IN ('stalled', 'failed') THEN stall END
  FROM changed WHERE status <> was
),
interrupted AS (SELECT pg_notify('regente_cancel', holder::text)
                FROM (SELECT DISTINCT holder FROM given_up WHERE holder IS NOT NULL) AS h),
woken AS (SELECT pg_notify('regente_queued', pipeline)
          FROM (SELECT DISTINCT pipeline FROM follow_up) AS p)
SELECT id, name, was::text, status::text, (SELECT count(*) FROM interrupted),
       (SELECT count(*) FROM woken)
FROM changed WHERE status <> was

-- name: resume_batch
-- Of two concurrent callers one finds the batch stalled and resumes it; the other finds it running
-- and changes nothing.
WITH stalled AS MATERIALIZED (
  SELECT id, stall_after FROM regente.batches WHERE id = %(batch_id)s
      AND status = 'stalled' AND (SELECT set_config('lock_timeout', '1s', true)) IS NOT NULL
  FOR UPDATE
),
moved AS (
  UPDATE regente.batches b SET status = 'running', resumes = resumes + 1,
         progress_at = regente.clock()
  FROM stalled WHERE b.id = stalled.id AND b.status = 'stalled' RETURNING b.id, b.resumes
),
silent AS MATERIALIZED (
  SELECT t.id, t.runner_id AS holder
  FROM stalled JOIN moved ON moved.id = stalled.id JOIN regente.tasks t ON t.batch_id = stalled.id
  WHERE t.status = 'running' AND t.heartbeat_at < regente.clock() - stalled.stall_after
    AND t.cancel_requested_at IS NULL
    AND t.id NOT IN (SELECT id FROM regente.healthy_tasks(stalled.id))
  ORDER BY t.id FOR UPDATE OF t
),
released AS (
  UPDATE regente.tasks t SET status = 'queued', runner_id = NULL
  FROM silent WHERE t.id = silent.id
  RETURNING t.id, t.batch_id, t.attempt, t.pipeline, silent.holder
),
interrupted AS (SELECT pg_notify('regente_cancel', holder::text)
                FROM (SELECT DISTINCT holder FROM released) AS h),
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
       (SELECT count(*) FROM interrupted) AS interrupted, (SELECT count(*) FROM woken) AS woken
FROM moved

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
  WHERE b.id = %(batch_id)s AND b.status < 'completed'
    AND (SELECT set_config('lock_timeout', '1s', true)) IS NOT NULL
  RETURNING b.id
)
INSERT INTO regente.events (batch_id, event, details) SELECT id, 'batch_canceled',
            %(details)s::jsonb FROM closed RETURNING batch_id
