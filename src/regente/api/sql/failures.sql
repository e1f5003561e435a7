-- Dead letters: tasks that failed for good, each with the record of its last failed attempt.

-- name: last_failure
LEFT JOIN LATERAL (
  SELECT f.id, f.class, f.code, f.message, f.fingerprint, f.step, f.at FROM regente.failures f
  WHERE f.task_id = t.id ORDER BY f.id DESC LIMIT 1) AS f ON true

-- name: failures_where
  AND (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
  AND (%(code)s::text IS NULL OR t.error_code = %(code)s)
  AND (%(batch_id)s::bigint IS NULL OR t.batch_id = %(batch_id)s)
  AND (%(fingerprint)s::text IS NULL OR f.fingerprint = %(fingerprint)s)

-- name: list_failures
SELECT t.id AS task_id, t.pipeline, t.batch_id, t.key, t.error_code AS code,
       t.error_message AS message, f.class, f.fingerprint,
       coalesce(f.step, t.checkpoint) AS step, t.tries, t.crashes, t.attempt,
       t.finished_at AS failed_at, f.id AS failure_id,
       (SELECT count(*) FROM regente.snapshots s WHERE s.failure_id = f.id) AS snapshots
FROM regente.tasks t
-- include: last_failure
WHERE t.status = 'failed' AND (%(before_id)s::bigint IS NULL OR t.id < %(before_id)s)
-- include: failures_where
ORDER BY t.id DESC LIMIT %(limit)s

-- name: failure_groups
SELECT t.pipeline, t.error_code AS code, f.fingerprint, max(f.class) AS class, count(*) AS tasks,
       min(t.finished_at) AS first_at,
       max(t.finished_at) AS last_at, max(t.id) AS newest_task_id,
       (array_agg(t.error_message ORDER BY t.id DESC))[1] AS message,
       (array_agg(coalesce(f.step, t.checkpoint) ORDER BY t.id DESC))[1] AS step
FROM (SELECT * FROM regente.tasks WHERE status = 'failed' ORDER BY id DESC LIMIT 100000) AS t
-- include: last_failure
WHERE true
-- include: failures_where
GROUP BY t.pipeline, t.error_code, f.fingerprint
ORDER BY tasks DESC, last_at DESC LIMIT %(limit)s
