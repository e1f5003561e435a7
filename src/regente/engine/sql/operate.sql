-- What people do to tasks.

-- name: cancel
-- Waiting tasks end at once; a running one is asked to end, and its runner does it.
WITH target AS MATERIALIZED (
  SELECT id, status, cancel_requested_at IS NOT NULL AS asked FROM regente.tasks
  WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id FOR UPDATE
),
ended AS (
  UPDATE regente.tasks t SET status = 'canceled', finished_at = regente.clock()
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
  UNION ALL SELECT id, batch_id, runner_id, attempt, 'task_cancel_requested', %(details)s::jsonb FROM asked
),
woken AS (SELECT pg_notify('regente_cancel', runner_id::text) FROM (SELECT DISTINCT runner_id FROM asked) AS r)
SELECT target.id, target.status::text AS before,
       CASE WHEN target.status IN ('draft', 'queued') THEN 'canceled' ELSE target.status::text END AS after,
       target.status = 'running' AS requested, (SELECT count(*) FROM woken) AS woken
FROM target

-- name: retry
-- A dead letter, a canceled or a skipped task starts again with a fresh budget. Its finished steps stay finished. Its batch is
-- held first, and until the commit, so that no review closes it over the task.
WITH home AS MATERIALIZED (
  SELECT b.id, b.status FROM regente.batches b
  WHERE b.id IN (SELECT t.batch_id FROM regente.tasks t WHERE t.id = ANY (%(ids)s::bigint[])) ORDER BY b.id FOR UPDATE
),
target AS MATERIALIZED (
  SELECT id, status FROM regente.tasks
  WHERE id = ANY (%(ids)s::bigint[]) AND (SELECT count(*) FROM home) >= 0 ORDER BY id FOR UPDATE
),
requeued AS (
  UPDATE regente.tasks t
  SET status = 'queued', tries = 0, crashes = 0, run_at = regente.clock(), queued_at = regente.clock(), finished_at = NULL,
      error_code = NULL, error_message = NULL, cancel_requested_at = NULL
  FROM target WHERE t.id = target.id AND target.status IN ('failed', 'canceled', 'skipped')
  RETURNING t.id, t.batch_id, t.pipeline, t.attempt
),
reopened AS (
  UPDATE regente.batches b SET status = 'running', finished_at = NULL, progress_at = regente.clock()
  FROM home WHERE b.id = home.id AND home.status >= 'completed' AND b.id IN (SELECT batch_id FROM requeued) RETURNING b.id
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, attempt, event, details)
  SELECT id, batch_id, attempt, 'task_requeued', %(details)s::jsonb FROM requeued
  UNION ALL SELECT NULL, id, NULL, 'batch_reopened', NULL FROM reopened
),
woken AS (SELECT pg_notify('regente_queued', pipeline) FROM (SELECT DISTINCT pipeline FROM requeued) AS p)
SELECT target.id, target.status::text AS before, requeued.id IS NOT NULL AS done, (SELECT count(*) FROM woken) AS woken
FROM target LEFT JOIN requeued ON requeued.id = target.id

-- name: release
-- What was held back falls due now.
WITH released AS (
  UPDATE regente.tasks SET run_at = regente.clock()
  WHERE id = ANY (%(ids)s::bigint[]) AND status = 'queued' AND run_at > regente.clock() + interval '100 years'
  RETURNING id, pipeline
),
woken AS (SELECT pg_notify('regente_queued', pipeline) FROM (SELECT DISTINCT pipeline FROM released) AS p)
SELECT id, (SELECT count(*) FROM woken) FROM released

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
