-- What the original specification calls processing: running tasks, of any pipeline that ends.

-- name: processing_stats
WITH processing AS (
  SELECT coalesce(r.checkpoint::text, t.checkpoint, 'INIT') AS checkpoint,
         t.heartbeat_at < regente.clock() - make_interval(secs => %(stuck_seconds)s::double precision) AS stuck
  FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline LEFT JOIN regente.mission_runs r ON r.mission_id = t.id
  WHERE t.status = 'running' AND NOT coalesce(p.endless, false) AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
),
done AS (
  SELECT extract(epoch FROM t.finished_at - t.started_at)::double precision AS seconds
  FROM (SELECT e.task_id FROM regente.events e
        WHERE e.event = 'task_completed' AND e.at > regente.clock() - interval '1 day' LIMIT 10000) AS e
  JOIN regente.tasks t ON t.id = e.task_id
  WHERE t.status = 'completed' AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
)
SELECT (SELECT count(*) FROM processing) AS total_processing, (SELECT count(*) FROM processing WHERE stuck) AS stuck_count,
       coalesce((SELECT jsonb_object_agg(c.checkpoint, c.count)
                 FROM (SELECT checkpoint, count(*) FROM processing GROUP BY checkpoint) AS c), '{}') AS by_checkpoint,
       coalesce(round((SELECT avg(seconds) FROM done)::numeric, 2), 0)::double precision AS avg_processing_time_seconds

-- name: stuck_tasks
SELECT t.id, t.pipeline, coalesce(r.checkpoint::text, t.checkpoint) AS processing_checkpoint, t.heartbeat_at AS last_heartbeat,
       a.name AS worker_id, t.attempt AS attempt_number, t.started_at, t.batch_id
FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline LEFT JOIN regente.runners a ON a.id = t.runner_id
LEFT JOIN regente.mission_runs r ON r.mission_id = t.id
WHERE t.status = 'running' AND NOT coalesce(p.endless, false)
  AND t.heartbeat_at < regente.clock() - make_interval(secs => %(stuck_seconds)s::double precision)
  AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
ORDER BY t.heartbeat_at LIMIT %(limit)s

-- name: recover_stuck
-- Back into the queue. Whoever still holds it is fenced: its attempt can write nothing more.
WITH stuck AS MATERIALIZED (
  SELECT t.id, t.runner_id AS holder FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline
  WHERE t.status = 'running' AND NOT coalesce(p.endless, false)
    AND t.heartbeat_at < regente.clock() - make_interval(secs => %(stuck_seconds)s::double precision)
    AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s) AND (%(id)s::bigint IS NULL OR t.id = %(id)s)
  ORDER BY t.id LIMIT 10000 FOR UPDATE OF t SKIP LOCKED
),
recovered AS (
  UPDATE regente.tasks t
  SET runner_id = NULL, run_at = regente.clock(), cancel_requested_at = NULL,
      status = CASE WHEN t.cancel_requested_at IS NOT NULL THEN 'canceled' ELSE 'queued' END::regente.task_status,
      finished_at = CASE WHEN t.cancel_requested_at IS NOT NULL THEN regente.clock() END
  FROM stuck s WHERE t.id = s.id RETURNING t.id, t.batch_id, t.attempt, t.pipeline, t.status, s.holder
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, holder, attempt, CASE status WHEN 'queued' THEN 'task_recovered' ELSE 'task_canceled' END,
         jsonb_build_object('reason', 'operator', 'by', %(by)s::text) FROM recovered
),
woken AS (SELECT pg_notify('regente_queued', pipeline) FROM (SELECT DISTINCT pipeline FROM recovered WHERE status = 'queued') AS p)
SELECT id, (SELECT count(*) FROM woken) AS woken FROM recovered ORDER BY id

-- name: clean_up_old
-- Begun too long ago and still not done: dead letters.
WITH old AS MATERIALIZED (
  SELECT t.id, t.runner_id AS holder FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline
  WHERE t.status = 'running' AND NOT coalesce(p.endless, false)
    AND t.started_at < regente.clock() - make_interval(hours => %(hours)s)
    AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
  ORDER BY t.id LIMIT 10000 FOR UPDATE OF t SKIP LOCKED
),
ended AS (
  UPDATE regente.tasks t
  SET status = 'failed', runner_id = NULL, finished_at = regente.clock(), cancel_requested_at = NULL, error_code = 'EXPIRED',
      error_message = 'not done within ' || %(hours)s || ' hours of its first start'
  FROM old o WHERE t.id = o.id RETURNING t.id, t.pipeline, t.attempt, t.batch_id, t.checkpoint, t.error_message, o.holder
),
failed AS (
  INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, fingerprint, step)
  SELECT id, attempt, pipeline, 'timeout', 'EXPIRED', error_message, md5('EXPIRED' || pipeline), checkpoint FROM ended
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, holder, attempt, 'task_failed',
         jsonb_build_object('reason', 'expired', 'code', 'EXPIRED', 'checkpoint', checkpoint, 'by', %(by)s::text) FROM ended
)
SELECT id FROM ended ORDER BY id
