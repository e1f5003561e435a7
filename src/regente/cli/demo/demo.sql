-- Queries of the demo's report.

-- name: stored_ads
SELECT id FROM public.ads WHERE id = ANY (%(ids)s::text[])

-- name: counts
SELECT count(*) FILTER (WHERE event = 'task_recovered') AS takeovers,
       count(*) FILTER (WHERE event = 'retry_triggered') AS retries,
       count(*) FILTER (WHERE event = 'session_failed') AS failed_sessions,
       count(*) FILTER (WHERE event = 'mission_returned') AS waits
FROM regente.events WHERE at >= %(since)s

-- name: repeated_work
-- Missions that were extracted or stored completely more than once.
SELECT count(*) FROM (
  SELECT task_id, event FROM regente.events
  WHERE task_id = ANY (%(ids)s::bigint[]) AND event IN ('scrape_completed', 'writer_completed')
  GROUP BY task_id, event HAVING count(*) > 1) AS again

-- name: failed_ads
SELECT mission_id, data ->> 'id' AS id FROM regente.mission_failed_items
WHERE mission_id = ANY (%(ids)s::bigint[])

-- name: held_proxies
SELECT count(*) FROM regente.proxies WHERE in_use_by_worker_id IS NOT NULL

-- name: now
SELECT regente.clock()
