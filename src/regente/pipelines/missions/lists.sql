-- Lists of missions, with any combination of filters.

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
SELECT m.*, w.name AS worker_name, r.success_count, r.failed_count, t.attempt, t.progress,
       t.cancel_requested_at IS NOT NULL AS canceling,
       CASE WHEN r.not_before > regente.clock() AND t.status = 'queued' THEN r.not_before END
           AS waits_until, t.heartbeat_at, t.result
FROM page JOIN regente.missions m ON m.id = page.id JOIN regente.tasks t ON t.id = page.id
JOIN regente.mission_runs r ON r.mission_id = page.id
LEFT JOIN regente.workers w ON w.id = m.worker_id
ORDER BY m.id DESC

-- name: list_missions
-- First the ids, which the indexes alone can tell for most filters; then the rows of this one page.
WITH page AS MATERIALIZED (
SELECT t.id FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
WHERE t.pipeline = 'missions'
  AND (%(before_id)s::bigint IS NULL OR t.id < %(before_id)s)
  AND (%(before_id)s::bigint IS NULL OR r.mission_id < %(before_id)s)
  AND (%(ids)s::bigint[] IS NULL OR t.id = ANY (%(ids)s::bigint[]))
-- include: missions_where
ORDER BY t.id DESC LIMIT %(limit)s
)
-- include: missions_of_page

-- name: list_missions_by_day
-- For a range of days of which most match: their ids lie anywhere, and walking down all ids until a
-- page is full may take the whole table, where the index has the newest of each single day at hand.
-- Only days that have missions are looked at: a range of all days there are has 3,652,059.
WITH RECURSIVE days AS (
  (SELECT t.args ->> 'date_start' AS day FROM regente.tasks t
   WHERE t.pipeline = 'missions'
     AND t.args ->> 'date_start' >= coalesce(%(date_from)s::text, '')
   ORDER BY t.args ->> 'date_start' LIMIT 1)
  UNION ALL
  SELECT (SELECT t.args ->> 'date_start' FROM regente.tasks t
          WHERE t.pipeline = 'missions' AND t.args ->> 'date_start' > days.day
          ORDER BY t.args ->> 'date_start' LIMIT 1)
  FROM days WHERE days.day < coalesce(%(date_to)s::text, '9999-12-31')
),
page AS MATERIALIZED (
  SELECT n.id
  FROM (SELECT day FROM days WHERE day <= coalesce(%(date_to)s::text, '9999-12-31')) AS d
  CROSS JOIN LATERAL (
    SELECT t.id FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
    WHERE t.pipeline = 'missions' AND t.args ->> 'date_start' = d.day
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
-- State by state, each counted to the cap and no further; without one, to the end.
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

-- name: select_missions
SELECT t.id FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
WHERE t.pipeline = 'missions'
-- include: missions_where
ORDER BY t.id LIMIT %(limit)s
