The life of a job: accepted → claimed (a lease) → progress with every batch → ended. A writer
changes a job only under its lease and from the progress that it last read.

-- name: accept_job
INSERT INTO regente_writer.jobs (job_id, writer, fingerprint, target, url, headers, json_path)
VALUES (%(job_id)s, %(writer)s, %(fingerprint)s, %(target)s, %(url)s, %(headers)s, %(json_path)s)
ON CONFLICT (job_id) DO NOTHING
RETURNING created_at

-- name: known_job
SELECT fingerprint, status, created_at, coalesce(writer = %(writer)s, true) AS own
FROM regente_writer.jobs WHERE job_id = %(job_id)s

-- name: count_unfinished
SELECT count(*) FROM (
  SELECT FROM regente_writer.jobs
  WHERE status = 'processing' AND coalesce(writer = %(writer)s, true) LIMIT %(limit)s
) AS unfinished

-- name: claim_job
UPDATE regente_writer.jobs AS jobs
SET lease_owner = %(owner)s, lease_until = now() + %(lease)s, claims = claims + 1,
    started_at = coalesce(started_at, now())
FROM (
  SELECT job_id FROM regente_writer.jobs
  WHERE status = 'processing' AND (lease_until IS NULL OR lease_until < now())
    AND coalesce(writer = %(writer)s, true)
  ORDER BY created_at
  LIMIT 1
  FOR UPDATE SKIP LOCKED
) AS chosen
WHERE jobs.job_id = chosen.job_id
RETURNING jobs.job_id, target, url, coalesce(headers, '{}') AS headers, json_path, processed,
          success_count, failed_count,
  etag, source_length, claims

-- name: read_progress
SELECT processed, success_count, failed_count, etag, source_length
FROM regente_writer.jobs
WHERE job_id = %(job_id)s AND lease_owner = %(owner)s AND status = 'processing'

-- name: renew_leases
UPDATE regente_writer.jobs SET lease_until = now() + %(lease)s
WHERE job_id = ANY (%(job_ids)s) AND lease_owner = %(owner)s AND status = 'processing'

-- name: hand_back
UPDATE regente_writer.jobs SET lease_owner = NULL, lease_until = NULL,
       claims = greatest(claims - 1, 0)
WHERE job_id = %(job_id)s AND lease_owner = %(owner)s AND status = 'processing'

-- name: note_source
UPDATE regente_writer.jobs SET etag = %(etag)s, source_length = %(length)s
WHERE job_id = %(job_id)s AND lease_owner = %(owner)s AND status = 'processing'

-- name: note_progress
UPDATE regente_writer.jobs
SET processed = processed + %(success)s + %(failed)s, success_count = success_count + %(success)s,
  failed_count = failed_count + %(failed)s, lease_until = now() + %(lease)s, claims = 1
WHERE job_id = %(job_id)s AND lease_owner = %(owner)s AND status = 'processing'
  AND processed = %(before)s

-- name: note_failed_item
INSERT INTO regente_writer.failed_items (job_id, index, data, error) VALUES (%s, %s, %s, %s)

-- name: end_job
UPDATE regente_writer.jobs
SET status = %(status)s, total = %(total)s, error = %(error)s, error_code = %(error_code)s,
    completed_at = now(),
  headers = NULL, url = %(safe_url)s, lease_owner = NULL, lease_until = NULL
WHERE job_id = %(job_id)s AND lease_owner = %(owner)s AND status = 'processing'

-- name: job_status
SELECT job_id, status, total, processed, success_count, failed_count, error, error_code, started_at,
       completed_at
FROM regente_writer.jobs WHERE job_id = %(job_id)s AND coalesce(writer = %(writer)s, true)

-- name: job_failed_items
SELECT index, data, error FROM regente_writer.failed_items WHERE job_id = %(job_id)s ORDER BY index
LIMIT %(limit)s

-- name: forget_jobs
DELETE FROM regente_writer.jobs WHERE status <> 'processing' AND completed_at < now() - %(keep)s

-- name: ping
SELECT 1
