-- Actions of the client.

-- name: cancel
-- A waiting task is canceled at once. For a running one the request is stored, and its runner ends
-- it. The statement holds the tasks that it has locked while it waits for the next: not for long.
-- One that ran before the lock and waits now is ended, too: PostgreSQL checks constraints on the
-- row that the statement began with, so the owner is taken off it.
WITH target AS MATERIALIZED (
  SELECT id, status, cancel_requested_at IS NOT NULL AS asked FROM regente.tasks
  WHERE id = ANY (%(ids)s::bigint[])
    AND (SELECT set_config('lock_timeout', '1s', true)) IS NOT NULL
  ORDER BY id FOR UPDATE
),
ended AS (
  UPDATE regente.tasks t
  SET status = 'canceled', runner_id = NULL, finished_at = regente.clock()
  FROM target WHERE t.id = target.id AND target.status IN ('draft', 'queued')
  RETURNING t.id, t.batch_id, t.attempt
),
asked AS (
  UPDATE regente.tasks t SET cancel_requested_at = regente.clock()
  FROM target WHERE t.id = target.id AND target.status = 'running' AND NOT target.asked
  RETURNING t.id, t.batch_id, t.attempt, t.runner_id
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, NULL, attempt, 'task_canceled', %(details)s::jsonb FROM ended
  UNION ALL SELECT id, batch_id, runner_id, attempt, 'task_cancel_requested', %(details)s::jsonb
      FROM asked
),
woken AS (SELECT pg_notify('regente_cancel', runner_id::text)
          FROM (SELECT DISTINCT runner_id FROM asked) AS r),
children AS (
  SELECT regente.cancel_children(array_agg(e.id)) FROM ended e
  WHERE EXISTS (SELECT FROM regente.batches b WHERE b.parent_id = e.id) HAVING count(*) > 0
)
SELECT target.id, target.status::text AS before,
       CASE WHEN target.status IN ('draft', 'queued') THEN 'canceled'
            ELSE target.status::text END AS after,
       target.status = 'running' AS requested,
       target.status = 'running' AND NOT target.asked AS asked,
       (SELECT count(*) FROM woken) AS woken,
       (SELECT count(*) FROM children) AS children
FROM target

-- name: retry
-- A failed, canceled or skipped task is queued again with all its tries. Its finished steps stay
-- finished, except those that failed because tasks that they spawned did: they look at those again.
-- Its batch is locked first, until the commit, so that no review closes it in between. It does not
-- wait long for what another session has locked, as it keeps others waiting.
WITH home AS MATERIALIZED (
  SELECT b.id, b.status FROM regente.batches b
  WHERE b.id IN (SELECT t.batch_id FROM regente.tasks t WHERE t.id = ANY (%(ids)s::bigint[]))
    AND (SELECT set_config('lock_timeout', '1s', true)) IS NOT NULL
  ORDER BY b.id FOR UPDATE
),
target AS MATERIALIZED (
  SELECT id, status FROM regente.tasks
  WHERE id = ANY (%(ids)s::bigint[]) AND (SELECT count(*) FROM home) >= 0
    AND (SELECT set_config('lock_timeout', '1s', true)) IS NOT NULL
  ORDER BY id FOR UPDATE
),
requeued AS (
  UPDATE regente.tasks t
  SET status = 'queued', runner_id = NULL, tries = 0, crashes = 0,
      run_at = CASE WHEN t.lane IS NULL THEN regente.clock() ELSE t.run_at END,
      lane_run_at = CASE WHEN t.lane IS NOT NULL THEN regente.clock() END,
      queued_at = regente.clock(), finished_at = NULL,
      error_code = NULL, error_message = NULL, cancel_requested_at = NULL
  FROM target WHERE t.id = target.id AND target.status IN ('failed', 'canceled', 'skipped')
  RETURNING t.id, t.batch_id, t.pipeline, t.attempt, t.lane
),
reopened AS (
  UPDATE regente.batches b SET status = 'running', finished_at = NULL, progress_at = regente.clock()
  FROM home WHERE b.id = home.id AND home.status >= 'completed'
      AND b.id IN (SELECT batch_id FROM requeued) RETURNING b.id
),
asked_again AS (
  DELETE FROM regente.steps s USING requeued
  WHERE s.task_id = requeued.id AND s.call LIKE 'spawn(%%'
    AND json_typeof(s.output) = 'object' AND s.output ->> 'spawned' = 'failed'
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, attempt, event, details)
  SELECT id, batch_id, attempt, 'task_requeued', %(details)s::jsonb FROM requeued
  UNION ALL SELECT NULL, id, NULL, 'batch_reopened', NULL FROM reopened
),
woken AS (SELECT pg_notify('regente_queued', pipeline)
          FROM (SELECT DISTINCT pipeline FROM requeued) AS p)
SELECT target.id, target.status::text AS before, requeued.id IS NOT NULL AS done,
       requeued.lane, requeued.pipeline, (SELECT count(*) FROM woken) AS woken
FROM target LEFT JOIN requeued ON requeued.id = target.id

-- name: change_tasks
-- In the order of the ids, and not for long: a task that is locked keeps those before it. The time
-- of a task that waits for a signal is the end of its wait.
SELECT w.id FROM (
  SELECT DISTINCT w.id FROM unnest(%(ids)s::bigint[]) AS w (id)
  WHERE NOT (%(changes)s::jsonb ? 'run_at'
             AND EXISTS (SELECT FROM regente.waits a JOIN regente.tasks t ON t.id = a.task_id
                         WHERE t.id = w.id AND a.until = coalesce(t.lane_run_at, t.run_at)))
  ORDER BY w.id OFFSET 0) AS w
WHERE (SELECT set_config('lock_timeout', '1s', true)) IS NOT NULL
  AND regente.change_task(
    w.id,
    %(changes)s::jsonb || CASE WHEN %(args)s::text IS NULL THEN '{}'
                               ELSE jsonb_build_object('args', %(args)s::jsonb) END,
    %(details)s::jsonb)

-- name: check_args
SELECT regente.schema_problem(p.args_schema, p.args_schema, %(args)s::jsonb, ''), p.tells_lanes
FROM regente.pipelines p WHERE p.name = %(pipeline)s

-- name: due_of_tasks
SELECT t.pipeline, t.priority,
       extract(epoch FROM coalesce(t.lane_run_at, t.run_at))::double precision AS first, t.lane
FROM regente.tasks t WHERE t.id = ANY (%(ids)s::bigint[]) AND t.status = 'queued'

-- name: release
-- Held tasks are due now.
UPDATE regente.tasks
SET run_at = CASE WHEN lane IS NULL THEN regente.clock() ELSE run_at END,
    lane_run_at = CASE WHEN lane IS NOT NULL THEN regente.clock() END
WHERE id = ANY (%(ids)s::bigint[]) AND status = 'queued'
  AND regente.is_held(coalesce(lane_run_at, run_at))
RETURNING id, pipeline, priority,
          extract(epoch FROM coalesce(lane_run_at, run_at))::double precision AS first, lane,
          pg_current_xact_id()::text

-- name: discard
WITH discarded AS (
  UPDATE regente.tasks SET status = 'canceled', finished_at = regente.clock()
  WHERE id = ANY (%(ids)s::bigint[]) AND status = 'failed' RETURNING id, batch_id, attempt
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, attempt, event, details)
  SELECT id, batch_id, attempt, 'task_discarded', %(details)s::jsonb FROM discarded
)
SELECT id FROM discarded

-- name: pause_pipeline
WITH changed AS (
  INSERT INTO regente.pipelines AS p (name, paused, paused_at)
  VALUES (%(name)s, %(paused)s, CASE WHEN %(paused)s THEN regente.clock() END)
  ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, paused_at = excluded.paused_at
  WHERE p.paused <> excluded.paused
  RETURNING name
),
logged AS (
  INSERT INTO regente.events (event, details)
  SELECT CASE WHEN %(paused)s THEN 'pipeline_paused' ELSE 'pipeline_resumed' END,
         jsonb_build_object('pipeline', name) || coalesce(%(details)s::jsonb, '{}')
  FROM changed
)
SELECT name, pg_notify('regente_queued', name) FROM changed

-- name: recover_stuck
-- Queue running tasks again, in their former place. The fence refuses the writes of their former
-- attempts, and their runners are told to stop them.
WITH stuck AS MATERIALIZED (
  SELECT t.id, t.runner_id AS holder FROM regente.tasks t LEFT
  JOIN regente.pipelines p ON p.name = t.pipeline
  WHERE t.status = 'running' AND NOT coalesce(p.endless, false)
    AND t.heartbeat_at < regente.clock()
        - make_interval(secs => %(stuck_seconds)s::double precision)
    AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
    AND (%(id)s::bigint IS NULL OR t.id = %(id)s)
  ORDER BY t.id LIMIT 10000 FOR UPDATE OF t SKIP LOCKED
),
recovered AS (
  UPDATE regente.tasks t
  SET runner_id = NULL, cancel_requested_at = NULL,
      status = CASE WHEN t.cancel_requested_at IS NOT NULL THEN 'canceled'
          ELSE 'queued' END::regente.task_status,
      finished_at = CASE WHEN t.cancel_requested_at IS NOT NULL THEN regente.clock() END
  FROM stuck s WHERE t.id = s.id RETURNING t.id, t.batch_id, t.attempt, t.pipeline, t.status,
       s.holder
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, holder, attempt, CASE status WHEN 'queued' THEN 'task_recovered'
      ELSE 'task_canceled' END,
         jsonb_build_object('reason', 'operator', 'by', %(by)s::text) FROM recovered
),
interrupted AS (SELECT pg_notify('regente_cancel', holder::text)
                FROM (SELECT DISTINCT holder FROM recovered) AS h),
woken AS (SELECT pg_notify('regente_queued', pipeline)
          FROM (SELECT DISTINCT pipeline FROM recovered WHERE status = 'queued') AS p)
SELECT id, (SELECT count(*) FROM interrupted) AS interrupted,
       (SELECT count(*) FROM woken) AS woken
FROM recovered ORDER BY id

-- name: give_up_old
-- Tasks that were first started too long ago become dead letters; those that wait for another
-- attempt only with `between_attempts`, because some sleep on purpose.
WITH old AS MATERIALIZED (
  SELECT t.id, t.runner_id AS holder FROM regente.tasks t LEFT
  JOIN regente.pipelines p ON p.name = t.pipeline
  WHERE (t.status = 'running' OR (t.status = 'queued' AND %(between_attempts)s::boolean))
    AND NOT coalesce(p.endless, false)
    AND t.started_at < regente.clock() - make_interval(secs => %(seconds)s::double precision)
    AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
  ORDER BY t.id LIMIT 10000 FOR UPDATE OF t SKIP LOCKED
),
ended AS (
  UPDATE regente.tasks t
  SET status = 'failed', runner_id = NULL, finished_at = regente.clock(),
      cancel_requested_at = NULL, error_code = 'EXPIRED',
      error_message = 'not done within ' || %(what)s || ' of its first start'
  FROM old o WHERE t.id = o.id RETURNING t.id, t.pipeline, t.attempt, t.batch_id, t.checkpoint,
       t.error_message, o.holder
),
failed AS (
  INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint, step)
  SELECT id, attempt, pipeline, 'timeout', 'EXPIRED', error_message, md5('EXPIRED' || pipeline),
         checkpoint FROM ended
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, holder, attempt, 'task_failed',
         jsonb_build_object('reason', 'expired', 'code', 'EXPIRED', 'checkpoint', checkpoint, 'by',
                            %(by)s::text) FROM ended
),
interrupted AS (SELECT pg_notify('regente_cancel', holder::text)
                FROM (SELECT DISTINCT holder FROM ended WHERE holder IS NOT NULL) AS h)
SELECT id, (SELECT count(*) FROM interrupted) FROM ended ORDER BY id

-- name: retention_days
SELECT value FROM regente.settings WHERE key = 'retention_days'

-- name: put_retention_days
WITH before AS MATERIALIZED (SELECT value FROM regente.settings
                             WHERE key = 'retention_days' FOR UPDATE),
stored AS (
  INSERT INTO regente.settings (key, value) VALUES ('retention_days', %(days)s::jsonb)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = regente.clock()
)
INSERT INTO regente.events (event, details)
SELECT 'setting_changed', %(who)s::jsonb || jsonb_build_object('key', 'retention_days',
  'before', coalesce((SELECT value FROM before), to_jsonb(%(default_days)s::double precision)),
  'after', %(days)s::jsonb)
