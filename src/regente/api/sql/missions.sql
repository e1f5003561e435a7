-- Lists of missions.

-- name: missions_where
-- One that waits for another attempt counts as running, as in the view `missions`. Asked for those
-- alone, the few that have begun are looked up instead of sifted out of the whole queue.
  AND (%(engine_statuses)s::regente.task_status[] IS NULL
       OR t.status = ANY (%(engine_statuses)s::regente.task_status[]))
  AND (NOT %(only_running)s OR t.status = 'running' OR (t.status = 'queued' AND t.attempt > 0))
  AND (NOT %(begun)s OR t.status <> 'queued' OR r.checkpoint IN ('extracao', 'armazenamento'))
  AND (NOT %(not_begun)s OR t.status <> 'queued' OR r.checkpoint IS NULL
       OR r.checkpoint NOT IN ('extracao', 'armazenamento'))
  AND (%(checkpoint)s::text IS NULL OR %(checkpoint)s::text = 'finalizado'
       OR t.status <> 'completed')
  AND (%(checkpoint)s::text IS NULL OR %(checkpoint)s::text <> 'finalizado'
       OR t.status = 'completed')
  AND (%(checkpoint)s::text IS NULL OR %(checkpoint)s::text = 'finalizado'
       OR r.checkpoint = %(checkpoint)s::regente.checkpoint_type)
  AND (%(media_type)s::text IS NULL OR t.args ->> 'media_type' = %(media_type)s)
  AND (%(language)s::text IS NULL OR t.args -> 'languages' ? %(language)s)
  AND (%(day)s::text IS NULL OR t.args ->> 'date_start' = %(day)s)
  AND (%(date_from)s::text IS NULL OR t.args ->> 'date_start' >= %(date_from)s)
  AND (%(date_to)s::text IS NULL OR t.args ->> 'date_start' <= %(date_to)s)
  AND (%(run_from)s::text IS NULL OR r.day >= %(run_from)s)
  AND (%(run_to)s::text IS NULL OR r.day <= %(run_to)s)
  AND (%(worker_id)s::text IS NULL OR r.worker_id = %(worker_id)s)
  AND (%(proxy)s::text IS NULL OR r.proxy_used = %(proxy)s)
  AND (%(error_code)s::text IS NULL OR t.error_code = %(error_code)s)

-- name: missions_of_page
SELECT t.id, (t.args ->> 'date_start')::date AS date_start,
       (t.args ->> 'date_end')::date AS date_end,
       t.args ->> 'media_type' AS media_type, t.args -> 'languages' AS languages,
       CASE WHEN t.status = 'queued' AND r.checkpoint IN ('extracao', 'armazenamento')
           THEN 'running' ELSE t.status::text END AS status,
       CASE t.status WHEN 'completed' THEN 'finalizado' ELSE r.checkpoint::text END AS checkpoint,
       r.worker_id, w.name AS worker_name, r.worker_job_id, r.worker_data_url, r.proxy_used,
       r.writer_job_id, r.ads_count,
       r.success_count, r.failed_count,
       CASE WHEN t.error_code ~ '^ERROR[0-9]{3}$' THEN t.error_code
            WHEN t.status = 'failed' THEN 'ERROR500' END AS error_code,
       t.error_message, r.retry_count, t.attempt, t.progress,
       t.cancel_requested_at IS NOT NULL AS canceling,
       CASE WHEN r.not_before > regente.clock() AND t.status = 'queued' THEN r.not_before END
           AS waits_until,
       t.created_at, t.queued_at, t.started_at, t.heartbeat_at, t.finished_at
FROM page JOIN regente.tasks t ON t.id = page.id JOIN regente.mission_runs r ON r.mission_id = t.id
LEFT JOIN regente.workers w ON w.id = r.worker_id
ORDER BY t.id DESC

-- name: list_missions
-- First the ids, which the indexes alone can tell for most filters; then the rows of this one page.
WITH page AS MATERIALIZED (
SELECT t.id FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
WHERE t.pipeline = 'missions'
  AND (%(before_id)s::bigint IS NULL OR t.id < %(before_id)s)
  AND (%(before_id)s::bigint IS NULL OR r.mission_id < %(before_id)s)
  AND (%(id)s::bigint IS NULL OR t.id = %(id)s)
-- include: missions_where
ORDER BY t.id DESC LIMIT %(limit)s
)
-- include: missions_of_page

-- name: list_missions_by_day
-- For a range of days of which most match: their ids lie anywhere, and walking down all ids until a
-- page is full may take the whole table, where the index has the newest of each single day at hand.
WITH page AS MATERIALIZED (
  SELECT n.id
  FROM (SELECT min(t.args ->> 'date_start')::date AS first,
        max(t.args ->> 'date_start')::date AS last
        FROM regente.tasks t WHERE t.pipeline = 'missions') AS known
  CROSS JOIN LATERAL generate_series(
    greatest(%(date_from)s::text::date, known.first), least(%(date_to)s::text::date, known.last),
    interval '1 day') AS d (day)
  CROSS JOIN LATERAL (
    SELECT t.id FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
    WHERE t.pipeline = 'missions' AND t.args ->> 'date_start' = d.day::date::text
      AND (%(before_id)s::bigint IS NULL OR t.id < %(before_id)s)
-- include: missions_where
    ORDER BY t.id DESC LIMIT %(limit)s) AS n
  ORDER BY n.id DESC LIMIT %(limit)s
)
-- include: missions_of_page

-- name: count_missions
SELECT count(*) AS count FROM (
  SELECT FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
  WHERE t.pipeline = 'missions'
-- include: missions_where
  LIMIT %(cap)s + 1) AS c

-- name: missions_by_state
-- Counted to the cap and no further, state by state.
SELECT s.status, (
  SELECT count(*) FROM (
    SELECT FROM regente.tasks t WHERE t.pipeline = 'missions'
        AND t.status = s.status::regente.task_status LIMIT %(cap)s + 1) AS c) AS count
FROM unnest(ARRAY['draft', 'queued', 'running', 'completed', 'failed', 'canceled']) AS s (status)

-- name: missions_between_attempts
SELECT count(*) AS count FROM (
  SELECT FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
  WHERE t.pipeline = 'missions' AND t.status = 'queued' AND t.attempt > 0
    AND r.checkpoint IN ('extracao', 'armazenamento')
  LIMIT %(cap)s + 1) AS c
