-- Queries of /metrics. None reads the history of tasks: only live states, by their partial indexes,
-- and counts that stop at a cap. A join that the planner could reorder is a subquery for each row.

-- name: metrics_limits
-- Settings of their transaction. They keep the planner from sequential scans of tables without
-- statistics.
SELECT set_config('statement_timeout', '10s', true),
       set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('enable_seqscan', 'off', true)

-- name: metrics_queues
-- By pipeline, with one index probe from each pipeline to the next.
WITH RECURSIVE queued (pipeline) AS (
  SELECT min(t.pipeline) FROM regente.tasks t WHERE t.status = 'queued'
  UNION ALL
  SELECT (SELECT min(t.pipeline) FROM regente.tasks t WHERE t.status = 'queued'
          AND t.pipeline > queued.pipeline)
  FROM queued WHERE queued.pipeline IS NOT NULL),
dead (pipeline) AS (
  SELECT min(t.pipeline) FROM regente.tasks t WHERE t.status = 'failed'
  UNION ALL
  SELECT (SELECT min(t.pipeline) FROM regente.tasks t WHERE t.status = 'failed'
          AND t.pipeline > dead.pipeline)
  FROM dead WHERE dead.pipeline IS NOT NULL),
level (pipeline, rank) AS (
  SELECT q.pipeline, (SELECT max(regente.claim_rank(t.priority, t.attempt)) FROM regente.tasks t
                      WHERE t.pipeline = q.pipeline AND t.status = 'queued')
  FROM queued q WHERE q.pipeline IS NOT NULL
  UNION ALL
  SELECT level.pipeline, (SELECT max(regente.claim_rank(t.priority, t.attempt))
                          FROM regente.tasks t
                          WHERE t.pipeline = level.pipeline AND t.status = 'queued'
                            AND regente.claim_rank(t.priority, t.attempt) < level.rank)
  FROM level WHERE level.rank IS NOT NULL),
oldest AS (
  SELECT level.pipeline, min(first.run_at) AS since
  FROM level CROSS JOIN LATERAL (
    SELECT t.run_at FROM regente.tasks t
    WHERE t.pipeline = level.pipeline AND t.status = 'queued'
      AND regente.claim_rank(t.priority, t.attempt) = level.rank AND t.run_at <= regente.clock()
    ORDER BY t.run_at, t.id LIMIT 1) AS first
  WHERE level.rank IS NOT NULL GROUP BY level.pipeline)
SELECT p.name AS pipeline,
       (SELECT count(*) FROM (SELECT FROM regente.tasks t WHERE t.pipeline = p.name
                              AND t.status = 'queued' LIMIT %(cap)s) AS c) AS queued,
       (SELECT count(*) FROM (SELECT FROM regente.tasks t WHERE t.pipeline = p.name
                              AND t.status = 'failed' LIMIT %(cap)s) AS c) AS failed,
       extract(epoch FROM regente.clock() - o.since)::double precision AS oldest_seconds,
       coalesce(k.paused, false) AS paused
FROM (SELECT pipeline AS name FROM queued UNION SELECT pipeline FROM dead
      UNION SELECT name FROM regente.pipelines) AS p
LEFT JOIN oldest o ON o.pipeline = p.name LEFT JOIN regente.pipelines k ON k.name = p.name
WHERE p.name IS NOT NULL ORDER BY p.name LIMIT 500

-- name: metrics_lanes
-- Lanes by state, and for each pipeline how long the first in the line has been ready. Parked lanes
-- count as such; those that are not in the line are full, or have nothing to do.
SELECT (SELECT count(*) FROM (SELECT FROM regente.lanes l LIMIT %(cap)s) AS c) AS known,
       (SELECT count(*) FROM (SELECT FROM regente.lanes l
                              WHERE l.parked_until > regente.clock() LIMIT %(cap)s) AS c) AS parked,
       (SELECT count(*) FROM (SELECT FROM regente.lanes l
                              WHERE l.breaker_state <> 'closed' LIMIT %(cap)s) AS c) AS broken,
       (SELECT count(*) FROM (SELECT FROM regente.lanes l WHERE l.pace < 1 LIMIT %(cap)s) AS c)
         AS slowed,
       (SELECT count(*) FROM (SELECT FROM regente.lane_calls c
                              WHERE c.entered_at IS NOT NULL LIMIT %(cap)s) AS c) AS running_calls,
       (SELECT count(*) FROM (SELECT FROM regente.lane_calls c
                              WHERE c.entered_at IS NULL LIMIT %(cap)s) AS c) AS waiting_calls

-- name: metrics_lane_waits
SELECT p.name AS pipeline,
       extract(epoch FROM regente.clock() - first.ready_at)::double precision AS seconds
FROM regente.pipelines p CROSS JOIN LATERAL (
  SELECT q.ready_at FROM regente.lane_queues q
  WHERE q.pipeline = p.name AND q.ready_at < 'infinity' ORDER BY q.ready_at LIMIT 1) AS first
ORDER BY p.name LIMIT 500

-- name: metrics_schedules
-- Schedules by state, the runs that wait for the previous one, and how long the oldest time that is
-- not dealt with has been due. Times of schedules with runs that wait are due on purpose.
SELECT count(*) FILTER (WHERE enabled AND paused_at IS NULL) AS enabled,
       count(*) FILTER (WHERE paused_at IS NOT NULL) AS paused,
       count(*) FILTER (WHERE NOT enabled AND paused_at IS NULL) AS disabled,
       (SELECT count(*) FROM (SELECT FROM regente.schedule_runs r
                              WHERE r.state = 'waiting' LIMIT %(cap)s) AS c) AS waiting,
       coalesce(extract(epoch FROM regente.clock() - min(next_at) FILTER (
         WHERE enabled AND paused_at IS NULL AND NOT EXISTS (
           SELECT FROM regente.schedule_runs r
           WHERE r.schedule = s.name AND r.state = 'waiting'))), 0)::double precision
         AS late_seconds
FROM regente.schedules s

-- name: metrics_running
-- Of the `others`, the built-ins tell the checkpoints.
SELECT o.pipeline, o.checkpoint, count(*) AS tasks, count(*) FILTER (WHERE o.stuck) AS stuck
FROM (
  SELECT t.pipeline,
         coalesce(t.checkpoint, 'INIT') AS checkpoint,
         NOT coalesce(p.endless, false) AND t.heartbeat_at
             < regente.clock() - coalesce(p.stall_after, '10 minutes') AS stuck
  FROM regente.tasks t LEFT JOIN regente.pipelines p ON p.name = t.pipeline
  WHERE t.status = 'running' AND t.pipeline <> ALL (%(others)s::text[])) AS o
GROUP BY o.pipeline, o.checkpoint ORDER BY count(*) DESC LIMIT 500

-- name: metrics_durations
-- Of the latest completions: among the last events of all tasks, within an hour.
WITH recent AS MATERIALIZED (
  SELECT e.task_id, e.event, e.at FROM regente.events e ORDER BY e.txid DESC, e.id DESC
  LIMIT %(events)s),
done AS (
  SELECT t.pipeline, extract(epoch FROM t.finished_at - t.started_at)::double precision AS seconds
  FROM recent e CROSS JOIN LATERAL (
    SELECT t.pipeline, t.started_at, t.finished_at FROM regente.tasks t
    WHERE t.id = e.task_id AND t.status = 'completed' OFFSET 0) AS t
  WHERE e.event = 'task_completed' AND e.at > regente.clock() - interval '1 hour')
SELECT pipeline, count(*) AS tasks, avg(seconds) AS average,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95
FROM done GROUP BY pipeline ORDER BY pipeline LIMIT 500

-- name: metrics_runners
-- Runners that are alive, or ended recently, so that their last counters are scraped.
SELECT r.id, r.name, r.status::text AS status, r.claimed, r.completed, r.failed, r.retried,
       r.recovered, r.handed_back,
       r.busy_seconds, r.concurrency, r.status < 'stopped'
           AND r.lease_until > regente.clock() AS alive,
       extract(epoch FROM regente.clock() - r.heartbeat_at)::double precision AS heartbeat_age,
       (SELECT count(*) FROM regente.tasks t WHERE t.runner_id = r.id AND t.status = 'running')
           AS running,
       (SELECT count(*) FROM regente.tasks t JOIN regente.pipelines p ON p.name = t.pipeline
        WHERE t.runner_id = r.id AND t.status = 'running'
          AND t.heartbeat_at < regente.clock() - p.stall_after) AS stuck
FROM regente.runners r
WHERE r.status < 'stopped' OR r.stopped_at > regente.clock() - interval '10 minutes'
ORDER BY r.started_at DESC, r.id LIMIT 500

-- name: metrics_lost_runners
SELECT r.id FROM regente.runners r WHERE r.status = 'lost' AND r.stopped_at >= %(since)s

-- name: metrics_failures_start
SELECT regente.clock() AS now, coalesce((SELECT max(f.id) FROM regente.failures f), 0) AS last_id

-- name: metrics_failures
-- New failed attempts. Ids are assigned before their commit: attempts of the last seconds are left
-- to the next query.
WITH fresh AS MATERIALIZED (
  SELECT f.id, f.pipeline, f.class, f.code,
         f.at >= regente.clock() - make_interval(secs => %(settle_seconds)s::double precision)
             AS unsettled
  FROM regente.failures f WHERE f.id > %(after_id)s ORDER BY f.id LIMIT 20000)
SELECT f.pipeline, f.class, f.code, count(*) AS failures, max(f.id) AS last_id FROM fresh f
WHERE f.id < coalesce((SELECT min(u.id) FROM fresh u WHERE u.unsettled), 9223372036854775807)
GROUP BY f.pipeline, f.class, f.code

-- name: metrics_state
SELECT
  (SELECT coalesce(jsonb_object_agg(b.status, b.batches), '{}') FROM (
     SELECT status::text AS status, count(*) AS batches FROM regente.batches
     WHERE status < 'completed' GROUP BY status) AS b) AS batches,
  (SELECT extract(epoch FROM regente.clock() - e.at)::double precision FROM regente.events e
   WHERE e.txid >= pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.txid, e.id
   LIMIT 1) AS feed_lag_seconds,
  (SELECT extract(epoch FROM regente.clock() - max(r.heartbeat_at))::double precision
   FROM regente.runners r) AS heartbeat_age
