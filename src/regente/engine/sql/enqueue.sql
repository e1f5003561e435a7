-- Store new tasks. The parameters are one array for each column; `place` is a row's position, so
-- that the ids are returned in the caller's order.

-- name: reserve_task_ids
-- Ids for a COPY, which cannot return any. The sequence is looked up once for all of them.
WITH sequence AS MATERIALIZED (SELECT pg_get_serial_sequence('regente.tasks', 'id')::regclass
                               AS name)
SELECT string_agg(nextval(name)::text, ',') FROM sequence, generate_series(1, %(count)s::integer)

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
),
woken AS (
  SELECT pg_notify('regente_queued', pipeline || ' ' || priority || ' ' || extract(epoch
      FROM first - regente.clock()))
  FROM (SELECT pipeline, priority, min(greatest(run_at, regente.clock())) AS first FROM inserted
        WHERE status = 'queued' GROUP BY pipeline, priority) AS w
)
SELECT id FROM inserted, (SELECT count(*) FROM woken) AS w ORDER BY id

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
SELECT id, CASE WHEN status = 'queued' THEN pg_notify('regente_queued',
                                                      pipeline || ' ' || priority || ' '
                  || extract(epoch FROM greatest(run_at, regente.clock()) - regente.clock())) END
FROM inserted

-- name: tasks_by_key
SELECT pipeline, key, id FROM regente.tasks
WHERE (pipeline, key) IN (SELECT * FROM unnest(%(pipelines)s::text[], %(keys)s::text[]))

-- name: notify_queued
-- The payload: pipeline, priority, and the seconds until the first task is due.
SELECT pg_notify('regente_queued', %(pipeline)s || ' ' || %(priority)s || ' 0')

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
         run_at = greatest(run_at, regente.clock())
  WHERE id = ANY (%(ids)s::bigint[]) AND status = 'draft' AND (SELECT count(*) FROM home) >= 0
  RETURNING id, batch_id, pipeline
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
),
woken AS (SELECT pg_notify('regente_queued', pipeline)
          FROM (SELECT DISTINCT pipeline FROM queued) AS p)
SELECT id FROM queued, (SELECT count(*) FROM woken) AS w

-- name: known_pipelines
SELECT name FROM regente.pipelines
