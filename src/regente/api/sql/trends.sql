-- Counts over a time window, for the charts, from the events of that window alone.

-- name: trends_depth
-- The current depth, and backwards from it the tasks that entered and left the queue: by a claim,
-- or by ending there.
WITH endless AS (
  SELECT t.id FROM regente.tasks t JOIN regente.pipelines p ON p.name = t.pipeline WHERE p.endless
),
moves AS (
  SELECT e.at, CASE
    WHEN e.event = 'task_claimed' THEN -1
    WHEN e.event IN ('task_failed', 'task_canceled') THEN CASE
        WHEN e.runner_id IS NULL AND coalesce(
      lag(e.event) OVER (PARTITION BY e.task_id ORDER BY e.txid, e.id),
      'task_queued') NOT IN ('task_drafted', 'task_claimed') THEN -1 ELSE 0 END
    ELSE 1 END AS step
  FROM regente.events e
  WHERE e.at > regente.clock() - make_interval(secs => %(window_seconds)s::double precision)
    AND e.event IN ('task_queued', 'task_requeued', 'task_retried', 'task_throttled',
                    'task_sleeping', 'task_waiting', 'task_held', 'task_handed_back',
                    'task_recovered', 'task_stalled', 'task_claimed', 'task_failed',
                    'task_canceled', 'task_drafted')
    AND NOT EXISTS (SELECT FROM endless WHERE endless.id = e.task_id)
),
buckets AS (
  SELECT date_bin(make_interval(secs => %(bucket_seconds)s::double precision), at,
                  '2000-01-01'::timestamptz) AS at, sum(step) AS step
  FROM moves GROUP BY 1
),
grid AS (
  SELECT at FROM generate_series(
    date_bin(make_interval(secs => %(bucket_seconds)s::double precision),
             regente.clock() - make_interval(secs => %(grid_seconds)s::double precision),
             '2000-01-01'::timestamptz),
    regente.clock(), make_interval(secs => %(bucket_seconds)s::double precision)) AS at
),
present AS (
  SELECT count(*) AS depth FROM regente.tasks t
  WHERE t.status = 'queued' AND NOT EXISTS (SELECT FROM endless WHERE endless.id = t.id)
)
SELECT g.at, greatest(0, (SELECT depth FROM present)
         - coalesce(sum(b.step) OVER (ORDER BY g.at ROWS BETWEEN 1 FOLLOWING
                                      AND UNBOUNDED FOLLOWING), 0))::bigint AS waiting
FROM grid g LEFT JOIN buckets b USING (at) ORDER BY g.at

-- name: trends_retries
SELECT coalesce(e.details ->> 'error_code', e.details ->> 'code', upper(e.details ->> 'reason'),
                upper(substr(e.event, 6))) AS cause,
       count(*) AS count, max(e.at) AS last_at
FROM regente.events e
WHERE e.at > regente.clock() - make_interval(secs => %(window_seconds)s::double precision)
  AND e.event = ANY (%(events)s::text[])
GROUP BY 1 ORDER BY count DESC, cause LIMIT 20
