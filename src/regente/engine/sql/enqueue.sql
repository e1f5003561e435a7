-- Store new tasks. The parameters are one array for each column; `place` is a row's position, so
-- that the ids are returned in the caller's order.

-- name: reserve_task_ids
-- Ids for a COPY, which cannot return any. The sequence is looked up once for all of them.
WITH sequence AS MATERIALIZED (SELECT pg_get_serial_sequence('regente.tasks', 'id')::regclass
                               AS name)
SELECT string_agg(nextval(name)::text, ','),
       extract(epoch FROM regente.clock())::double precision AS first,
       pg_current_xact_id()::text
FROM sequence, generate_series(1, %(count)s::integer)

-- name: copy_tasks
COPY regente.tasks (id, pipeline, args, priority, max_attempts, batch_id) FROM STDIN

-- name: copy_events
COPY regente.events (task_id, batch_id, event) FROM STDIN

-- name: insert_tasks
WITH wanted AS (
  SELECT w.* FROM unnest(%(pipelines)s::text[], %(args)s::text[], %(keys)s::text[],
                         %(priorities)s::smallint[],
                         %(run_ats)s::timestamptz[], %(max_attempts)s::smallint[],
                         %(batch_ids)s::bigint[], %(drafts)s::boolean[])
    WITH ORDINALITY AS w (pipeline, args, key, priority, run_at, max_attempts, batch_id, draft,
                          place)
),
inserted AS (
  INSERT INTO regente.tasks (pipeline, args, key, priority, run_at, max_attempts, batch_id, status,
                             queued_at)
  SELECT pipeline, args::jsonb, key, priority, coalesce(run_at, regente.clock()), max_attempts,
         batch_id,
         CASE WHEN draft THEN 'draft' ELSE 'queued' END::regente.task_status, CASE
              WHEN NOT draft THEN regente.clock() END
  FROM wanted ORDER BY place
  ON CONFLICT (pipeline, key) WHERE key IS NOT NULL DO NOTHING
  RETURNING id, batch_id, status, pipeline, priority, run_at
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, event)
  SELECT id, batch_id, CASE status WHEN 'draft' THEN 'task_drafted' ELSE 'task_queued' END
  FROM inserted ORDER BY id
)
SELECT id, pipeline, priority,
       CASE status WHEN 'queued' THEN extract(epoch FROM run_at)::double precision END AS first,
       pg_current_xact_id()::text
FROM inserted ORDER BY id

-- name: copy_laned_tasks
COPY regente.tasks (id, pipeline, args, priority, max_attempts, batch_id, run_at, lane_run_at, lane)
FROM STDIN

-- name: insert_laned_tasks
-- As `insert_tasks`, for tasks of which some have a lane.
WITH wanted AS (
  SELECT w.* FROM unnest(%(pipelines)s::text[], %(args)s::text[], %(keys)s::text[],
                         %(priorities)s::smallint[],
                         %(run_ats)s::timestamptz[], %(max_attempts)s::smallint[],
                         %(batch_ids)s::bigint[], %(drafts)s::boolean[], %(lanes)s::text[])
    WITH ORDINALITY AS w (pipeline, args, key, priority, run_at, max_attempts, batch_id, draft,
                          lane, place)
),
inserted AS (
  INSERT INTO regente.tasks (pipeline, args, key, priority, run_at, lane_run_at, lane,
                             max_attempts, batch_id, status, queued_at)
  SELECT pipeline, args::jsonb, key, priority,
         CASE WHEN lane IS NULL THEN coalesce(run_at, regente.clock()) ELSE regente.in_lane() END,
         CASE WHEN lane IS NOT NULL THEN coalesce(run_at, regente.clock()) END, lane,
         max_attempts, batch_id,
         CASE WHEN draft THEN 'draft' ELSE 'queued' END::regente.task_status,
         CASE WHEN NOT draft THEN regente.clock() END
  FROM wanted ORDER BY place
  ON CONFLICT (pipeline, key) WHERE key IS NOT NULL DO NOTHING
  RETURNING id, batch_id, status, pipeline, priority, coalesce(lane_run_at, run_at) AS run_at, lane
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, event)
  SELECT id, batch_id, CASE status WHEN 'draft' THEN 'task_drafted' ELSE 'task_queued' END
  FROM inserted ORDER BY id
)
SELECT id, pipeline, priority,
       CASE status WHEN 'queued' THEN extract(epoch FROM run_at)::double precision END AS first,
       lane, pg_current_xact_id()::text
FROM inserted ORDER BY id

-- name: store_task
-- One task without key and batch, and its hint after the commit, in one round trip. Only outside
-- of a transaction.
CALL regente.store_task(%(pipeline)s, %(args)s::jsonb, %(priority)s::smallint,
                        %(run_at)s::timestamptz, %(max_attempts)s::smallint, NULL)

-- name: insert_task
-- One task without key and batch, as `insert_tasks` would store it; faster for a single one.
WITH inserted AS (
  INSERT INTO regente.tasks (pipeline, args, priority, run_at, max_attempts, status, queued_at)
  VALUES (%(pipeline)s, %(args)s::jsonb, %(priority)s::smallint,
          coalesce(%(run_at)s::timestamptz, regente.clock()),
          %(max_attempts)s::smallint, CASE WHEN %(draft)s::boolean THEN 'draft'
              ELSE 'queued' END::regente.task_status,
          CASE WHEN NOT %(draft)s::boolean THEN regente.clock() END)
  RETURNING id, status, pipeline, priority, run_at
),
logged AS (
  INSERT INTO regente.events (task_id, event)
  SELECT id, CASE status WHEN 'draft' THEN 'task_drafted' ELSE 'task_queued' END FROM inserted
)
SELECT id, CASE status WHEN 'queued' THEN extract(epoch FROM run_at)::double precision END AS first
FROM inserted

-- name: store_unique
-- One task with a key that becomes free again, or with another answer to a conflict.
SELECT s.id, s.created,
       CASE WHEN NOT %(draft)s::boolean THEN extract(
         epoch FROM coalesce(%(run_at)s::timestamptz, regente.clock()))::double precision END
         AS first,
       pg_current_xact_id()::text
FROM regente.store_unique(
  ROW(%(pipeline)s, %(args)s::jsonb, %(key)s, %(priority)s, %(run_at)s, %(max_attempts)s,
      %(batch_id)s, %(draft)s, %(lane)s)::regente.new_task,
  %(unique)s, %(on_conflict)s) AS s

-- name: tasks_by_key
SELECT pipeline, key, id FROM regente.tasks
WHERE (pipeline, key) IN (SELECT * FROM unnest(%(pipelines)s::text[], %(keys)s::text[]))

-- name: send_hints
-- Tell runners of priority levels with new tasks: those without a transaction's id, and those whose
-- transaction has committed. The result names the transactions that have ended. Nothing waits
-- for this commit: it writes nothing, and flushed to disk it would keep back every other NOTIFY.
WITH hint AS MATERIALIZED (
  SELECT h.xid, h.pipeline, h.priority, h.first,
         CASE WHEN h.xid IS NULL THEN 'committed' ELSE pg_xact_status(h.xid) END AS state
  FROM unnest(%(xids)s::xid8[], %(pipelines)s::text[], %(priorities)s::smallint[],
              %(firsts)s::double precision[]) AS h (xid, pipeline, priority, first)
),
level AS (
  SELECT pipeline, priority, min(first) AS first FROM hint WHERE state = 'committed'
  GROUP BY pipeline, priority
),
sent AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true),
         pg_notify('regente_queued', concat_ws(' ', pipeline, priority,
           greatest(0, first - extract(epoch FROM regente.clock())), first))
  FROM level
)
SELECT DISTINCT hint.xid::text FROM hint, (SELECT count(*) FROM sent) AS s
WHERE hint.xid IS NOT NULL AND hint.state IS DISTINCT FROM 'in progress'

-- name: ended_transactions
SELECT xid::text FROM unnest(%(xids)s::xid8[]) AS t (xid)
WHERE pg_xact_status(xid) IS DISTINCT FROM 'in progress'

-- name: call_runners
-- An empty payload: every runner surveys its queue.
SELECT pg_notify('regente_queued', '')

-- name: queue_drafts
-- A batch that ended while the task was a draft opens again.
WITH home AS MATERIALIZED (
  SELECT b.id, b.status FROM regente.batches b
  WHERE b.id IN (SELECT t.batch_id FROM regente.tasks t WHERE t.id = ANY (%(ids)s::bigint[]))
  ORDER BY b.id FOR UPDATE
),
queued AS (
  UPDATE regente.tasks SET status = 'queued', queued_at = regente.clock(),
         run_at = greatest(run_at, regente.clock()),
         lane_run_at = CASE WHEN lane IS NOT NULL THEN greatest(lane_run_at, regente.clock()) END
  WHERE id = ANY (%(ids)s::bigint[]) AND status = 'draft' AND (SELECT count(*) FROM home) >= 0
  RETURNING id, batch_id, pipeline, priority, coalesce(lane_run_at, run_at) AS run_at, lane
),
reopened AS (
  UPDATE regente.batches b SET status = 'running', finished_at = NULL, progress_at = regente.clock()
  FROM home WHERE b.id = home.id AND home.status >= 'completed'
      AND b.id IN (SELECT batch_id FROM queued) RETURNING b.id
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, event, details)
  SELECT id, batch_id, 'task_queued', %(details)s::jsonb FROM queued
  UNION ALL SELECT NULL, id, 'batch_reopened', NULL FROM reopened
)
SELECT id, pipeline, priority, extract(epoch FROM run_at)::double precision AS first, lane,
       pg_current_xact_id()::text
FROM queued

-- name: known_pipelines
SELECT name FROM regente.pipelines
