-- Lists of missions.

-- name: missions_where
-- One that waits for another attempt counts as running, as in the view `missions`.
  AND (%(engine_statuses)s::regente.task_status[] IS NULL OR t.status = ANY (%(engine_statuses)s::regente.task_status[]))
  AND (%(statuses)s::text[] IS NULL OR CASE WHEN t.status = 'queued' AND r.checkpoint IN ('extracao', 'armazenamento')
       THEN 'running' ELSE t.status::text END = ANY (%(statuses)s::text[]))
  AND (%(checkpoint)s::text IS NULL OR CASE t.status WHEN 'completed' THEN 'finalizado' ELSE r.checkpoint::text END = %(checkpoint)s)
  AND (%(media_type)s::text IS NULL OR t.args ->> 'media_type' = %(media_type)s)
  AND (%(language)s::text IS NULL OR t.args -> 'languages' ? %(language)s)
  AND (%(date_from)s::text IS NULL OR t.args ->> 'date_start' >= %(date_from)s)
  AND (%(date_to)s::text IS NULL OR t.args ->> 'date_start' <= %(date_to)s)
  AND (%(worker_id)s::text IS NULL OR r.worker_id = %(worker_id)s)
  AND (%(proxy)s::text IS NULL OR r.proxy_used = %(proxy)s)
  AND (%(error_code)s::text IS NULL OR t.error_code = %(error_code)s)
  AND (%(created_after)s::timestamptz IS NULL OR t.created_at >= %(created_after)s)
  AND (%(created_before)s::timestamptz IS NULL OR t.created_at < %(created_before)s)

-- name: list_missions
SELECT t.id, (t.args ->> 'date_start')::date AS date_start, (t.args ->> 'date_end')::date AS date_end,
       t.args ->> 'media_type' AS media_type, t.args -> 'languages' AS languages,
       CASE WHEN t.status = 'queued' AND r.checkpoint IN ('extracao', 'armazenamento') THEN 'running' ELSE t.status::text END AS status,
       CASE t.status WHEN 'completed' THEN 'finalizado' ELSE r.checkpoint::text END AS checkpoint,
       r.worker_id, w.name AS worker_name, r.worker_job_id, r.worker_data_url, r.proxy_used, r.writer_job_id, r.ads_count,
       r.success_count, r.failed_count,
       CASE WHEN t.error_code ~ '^ERROR[0-9]{3}$' THEN t.error_code WHEN t.status = 'failed' THEN 'ERROR500' END AS error_code,
       t.error_message, r.retry_count, t.attempt, t.progress, t.cancel_requested_at IS NOT NULL AS canceling,
       CASE WHEN r.not_before > regente.clock() AND t.status = 'queued' THEN r.not_before END AS waits_until,
       t.created_at, t.queued_at, t.started_at, t.heartbeat_at, t.finished_at
FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id LEFT JOIN regente.workers w ON w.id = r.worker_id
WHERE t.pipeline = 'missions' AND (%(before_id)s::bigint IS NULL OR t.id < %(before_id)s)
  AND (%(id)s::bigint IS NULL OR t.id = %(id)s)
-- include: missions_where
ORDER BY t.id DESC LIMIT %(limit)s

-- name: count_missions
SELECT count(*) AS count FROM (
  SELECT FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
  WHERE t.pipeline = 'missions'
-- include: missions_where
  LIMIT %(cap)s + 1) AS c

-- name: attempts_of
SELECT f.id, f.attempt, f.at, f.class, f.code, f.message, f.step, f.fingerprint FROM regente.failures f
WHERE f.task_id = %(task_id)s ORDER BY f.id LIMIT 500
