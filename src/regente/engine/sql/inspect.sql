-- Queries of the client.

-- name: get_tasks
SELECT t.id, t.pipeline, t.status::text AS status, t.key, t.batch_id, t.priority, t.args, t.result,
       t.attempt, t.tries,
       t.crashes, t.max_attempts, coalesce(t.lane_run_at, t.run_at) AS run_at, t.lane,
       t.created_at, t.queued_at, t.started_at, t.claimed_at,
       t.heartbeat_at,
       t.finished_at, t.cancel_requested_at, t.checkpoint, t.progress, t.error_code,
       t.error_message, t.runner_id,
       r.name AS runner, r.lease_until
FROM regente.tasks t LEFT JOIN regente.runners r ON r.id = t.runner_id
WHERE t.id = ANY (%(ids)s::bigint[])
ORDER BY t.id

-- name: ended_tasks
SELECT w.id FROM unnest(%(ids)s::bigint[]) AS w (id) LEFT JOIN regente.tasks t ON t.id = w.id
WHERE t.id IS NULL OR t.status >= 'completed'

-- name: list_tasks
SELECT t.id, t.pipeline, t.status::text AS status, t.key, t.batch_id, t.priority, t.args, t.result,
       t.attempt, t.tries,
       t.crashes, t.max_attempts, coalesce(t.lane_run_at, t.run_at) AS run_at, t.lane,
       t.created_at, t.queued_at, t.started_at, t.claimed_at,
       t.heartbeat_at,
       t.finished_at, t.cancel_requested_at, t.checkpoint, t.progress, t.error_code,
       t.error_message, t.runner_id,
       r.name AS runner, r.lease_until
FROM regente.tasks t LEFT JOIN regente.runners r ON r.id = t.runner_id
WHERE (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
  AND (%(statuses)s::regente.task_status[] IS NULL
       OR t.status = ANY (%(statuses)s::regente.task_status[]))
  AND (%(batch_id)s::bigint IS NULL OR t.batch_id = %(batch_id)s)
  AND (%(code)s::text IS NULL OR t.error_code = %(code)s)
  AND (%(before_id)s::bigint IS NULL OR t.id < %(before_id)s)
ORDER BY t.id DESC LIMIT %(limit)s

-- name: select_task_ids
SELECT t.id FROM regente.tasks t
WHERE (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
  AND t.status = ANY (%(statuses)s::regente.task_status[])
  AND (%(batch_id)s::bigint IS NULL OR t.batch_id = %(batch_id)s)
  AND (%(code)s::text IS NULL OR t.error_code = %(code)s)
  AND (%(before_id)s::bigint IS NULL OR t.id < %(before_id)s)
ORDER BY t.id DESC LIMIT %(limit)s

-- name: preview_tasks
SELECT n.status::text, count(*) AS tasks,
       array_agg(n.id ORDER BY n.id DESC) FILTER (WHERE n.place <= %(sample)s) AS newest
FROM (
  SELECT t.id, t.status, row_number() OVER (PARTITION BY t.status ORDER BY t.id DESC) AS place
  FROM regente.tasks t
  WHERE (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
    AND t.status = ANY (%(statuses)s::regente.task_status[])
    AND (%(batch_id)s::bigint IS NULL OR t.batch_id = %(batch_id)s)
    AND (%(code)s::text IS NULL OR t.error_code = %(code)s)) AS n
GROUP BY n.status ORDER BY n.status

-- name: counts
SELECT status::text, count(*) FROM regente.tasks WHERE %(pipeline)s::text IS NULL
    OR pipeline = %(pipeline)s GROUP BY status

-- name: steps_of_task
SELECT name, item, attempt, duration_ms, finished_at, output FROM regente.steps
WHERE task_id = %(task_id)s ORDER BY finished_at, name, item LIMIT %(limit)s

-- name: events_of_task
SELECT id, txid::text AS txid, txid::text || '-' || id AS position, at, task_id, batch_id,
       runner_id, attempt, event, details
FROM regente.events
WHERE task_id = %(task_id)s ORDER BY id LIMIT %(limit)s

-- name: attempts_of_task
-- From the claims in its log: what a claim stores costs every task. A runner that was deleted
-- since leaves its id.
SELECT e.attempt, e.at AS claimed_at, e.runner_id, r.name AS runner,
       r.versions ->> t.pipeline AS version
FROM regente.events e JOIN regente.tasks t ON t.id = e.task_id
LEFT JOIN regente.runners r ON r.id = e.runner_id
WHERE e.task_id = %(task_id)s AND e.event = 'task_claimed'
ORDER BY e.attempt DESC LIMIT %(limit)s

-- name: failures_of_task
SELECT id, attempt, at, class, code, message, fingerprint, step, stack, details,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'content_type', s.content_type,
                                                     'bytes', length(s.body), 'truncated',
                                                     s.truncated)), '[]')
        FROM regente.snapshots s WHERE s.failure_id = f.id) AS snapshots
FROM regente.failures f WHERE task_id = %(task_id)s ORDER BY id DESC LIMIT %(limit)s

-- name: snapshot
SELECT content_type, truncated, body FROM regente.snapshots WHERE failure_id = %(failure_id)s
    AND name = %(name)s

-- name: why
SELECT t.id, t.status::text AS status, t.pipeline, t.attempt, t.tries, t.crashes, t.checkpoint,
       t.error_code, t.error_message,
       coalesce(t.lane_run_at, t.run_at) AS run_at, t.heartbeat_at, t.runner_id,
       r.name AS runner, r.lease_until,
       r.status < 'stopped' AND r.lease_until > regente.clock() AS runner_alive,
       t.cancel_requested_at,
       extract(epoch FROM coalesce(t.lane_run_at, t.run_at) - regente.clock())::double precision
         AS due_in_seconds,
       regente.is_held(coalesce(t.lane_run_at, t.run_at)) AS held,
       t.lane, l.concurrency AS lane_concurrency, l.pace_rate AS lane_rate,
       l.breaker_state::text AS lane_breaker_state,
       coalesce(l.parked_until > regente.clock(), false) AS lane_parked,
       nullif(l.parked_until, 'infinity') AS lane_parked_until, l.parked_because
         AS lane_parked_because,
       (SELECT count(*) FROM regente.tasks b WHERE b.status = 'running' AND b.lane = l.lane)
         + (SELECT count(*) FROM regente.lane_calls b
            JOIN regente.tasks o ON o.id = b.task_id AND o.attempt = b.attempt
            WHERE b.lane = l.lane AND b.entered_at IS NOT NULL AND o.status = 'running')
         AS lane_running,
       c.lane AS awaited_lane,
       (SELECT count(*) FROM regente.lane_calls b
        JOIN regente.tasks o ON o.id = b.task_id AND o.attempt = b.attempt
        WHERE b.lane = c.lane AND b.entered_at IS NULL AND o.status = 'running'
          AND b.asked_at < c.asked_at) AS calls_ahead,
       (SELECT q.per_second FROM regente.lane_queues q
        WHERE q.lane = t.lane AND q.pipeline = t.pipeline) AS lane_per_second,
       (SELECT count(*) FROM (SELECT FROM regente.tasks b
        WHERE t.status = 'queued' AND b.status = 'queued' AND b.lane = t.lane
          AND b.pipeline = t.pipeline AND b.lane_run_at <= regente.clock()
          AND (regente.claim_rank(b.priority, b.attempt)
                 > regente.claim_rank(t.priority, t.attempt)
               OR regente.claim_rank(b.priority, b.attempt)
                 = regente.claim_rank(t.priority, t.attempt)
                  AND (b.lane_run_at, b.id) < (t.lane_run_at, t.id))
        LIMIT 10001) AS ahead) AS lane_ahead,
       i.name AS unknown_step, i.item AS unknown_item, i.attempt AS unknown_attempt,
       i.called_at AS unknown_at,
       w.signal AS awaited_signal, w.until AS awaited_until, w.batch_id AS awaited_batch,
       (SELECT count(*) FROM regente.tasks c WHERE c.batch_id = w.batch_id
        AND c.status >= 'completed') AS children_ended,
       (SELECT b.total FROM regente.batches b WHERE b.id = w.batch_id) AS children,
       extract(epoch FROM regente.clock() - t.heartbeat_at)::double precision AS silent_seconds,
       extract(epoch FROM p.stall_after)::double precision AS stall_after_seconds,
       coalesce(p.paused, false) AS paused,
       (SELECT count(*) FROM regente.runners a
        WHERE a.status = 'running' AND a.lease_until > regente.clock()
          AND t.pipeline = ANY (a.pipelines)) AS runners,
       (SELECT coalesce(sum(a.concurrency), 0) FROM regente.runners a
        WHERE a.status = 'running' AND a.lease_until > regente.clock()
          AND t.pipeline = ANY (a.pipelines)) AS slots,
       (SELECT count(*) FROM regente.tasks b JOIN regente.runners a ON a.id = b.runner_id
        WHERE b.status = 'running' AND t.pipeline = ANY (a.pipelines)) AS busy,
       (SELECT count(*) FROM (SELECT FROM regente.tasks b
        WHERE t.status = 'queued' AND t.lane IS NULL AND b.status = 'queued'
          AND b.pipeline = t.pipeline
          AND b.run_at <= regente.clock()
          AND (regente.claim_rank(b.priority, b.attempt)
                 > regente.claim_rank(t.priority, t.attempt)
               OR regente.claim_rank(b.priority, b.attempt)
                 = regente.claim_rank(t.priority, t.attempt)
               AND (b.run_at, b.id) < (t.run_at, t.id))
        LIMIT 10001) AS ahead) AS ahead,
       (SELECT e.event FROM regente.events e WHERE e.task_id = t.id AND e.event LIKE 'task\_%%'
        ORDER BY e.id DESC LIMIT 1) AS last_event
FROM regente.tasks t LEFT JOIN regente.runners r ON r.id = t.runner_id LEFT
JOIN regente.pipelines p ON p.name = t.pipeline
LEFT JOIN LATERAL (
  SELECT n.lane, n.asked_at FROM regente.lane_calls n
  WHERE n.task_id = t.id AND n.attempt = t.attempt AND n.entered_at IS NULL
    AND t.status = 'running'
  ORDER BY n.asked_at LIMIT 1) AS c ON true
LEFT JOIN LATERAL (
  SELECT
  -- include: lane_settings
  FROM regente.lanes l
  LEFT JOIN regente.pipelines p ON p.name = l.pipeline AND l.defaults IS NULL
  WHERE l.name = coalesce(c.lane, t.lane)) AS l ON true
LEFT JOIN LATERAL (
  SELECT i.name, i.item, i.attempt, i.called_at FROM regente.intents i
  WHERE i.task_id = t.id AND i.asked_at IS NOT NULL AND i.decision IS NULL
    AND NOT EXISTS (SELECT FROM regente.steps s
                    WHERE s.task_id = i.task_id AND s.name = i.name AND s.item = i.item)
  ORDER BY i.called_at LIMIT 1) AS i ON true
LEFT JOIN LATERAL (
  SELECT w.signal, w.until, w.batch_id FROM regente.waits w
  WHERE w.task_id = t.id AND w.attempt = t.attempt AND t.status = 'queued'
    AND coalesce(t.lane_run_at, t.run_at) > regente.clock()
  ORDER BY w.since LIMIT 1) AS w ON true
WHERE t.id = %(task_id)s

-- name: read_feed
-- Only events that no running transaction can precede. Order and position are (txid, id). The first
-- row tells the timeline, also when there is no event.
WITH page AS MATERIALIZED (
  SELECT e.id, e.txid, e.at, e.task_id, e.batch_id, e.runner_id, e.attempt, e.event, e.details
  FROM regente.events e
  WHERE (e.txid, e.id) > (%(after_txid)s::xid8, %(after_id)s::bigint)
    AND e.txid < pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY e.txid, e.id LIMIT %(limit)s
)
SELECT here.timeline, here.timelines, e.id, e.txid::text AS txid,
       e.txid::text || '-' || e.id || '-' || here.timeline AS position, e.at, e.task_id,
       e.batch_id, e.runner_id, e.attempt, e.event, e.details
FROM (SELECT regente.timeline() AS timeline, count(*) AS timelines FROM regente.timelines) AS here
LEFT JOIN page e ON true
ORDER BY e.txid, e.id  -- `txid` alone would be the output column, a text

-- name: enter_timeline
SELECT regente.enter_timeline()

-- name: pipelines
SELECT p.name, p.paused, p.paused_at, p.seen_at, p.max_attempts,
       extract(epoch FROM p.stall_after)::double precision AS stall_after_seconds,
       ARRAY(SELECT DISTINCT r.versions ->> p.name FROM regente.runners r
             WHERE r.status < 'stopped' AND r.lease_until > regente.clock()
               AND r.versions ->> p.name IS NOT NULL ORDER BY 1) AS versions
FROM regente.pipelines p ORDER BY p.name

-- name: now
SELECT regente.clock()

-- name: backend_pid
-- Differs from the pid that the connection got at its start when a pooler is in between.
SELECT pg_backend_pid()

-- name: backend_is_busy
-- Not when it waits for its client: then it has answered, or never got the statement. Without
-- track_activities the state is unknown, and counts as busy.
SELECT coalesce(bool_or(coalesce(state, '') NOT LIKE 'idle%%'
                        AND wait_event IS DISTINCT FROM 'ClientRead'), false)
FROM pg_stat_activity WHERE pid = %(pid)s

-- name: listen_queued
LISTEN regente_queued

-- name: listen_cancel
LISTEN regente_cancel

-- name: listen_lanes
LISTEN regente_lanes

-- name: listen_laned
LISTEN regente_laned

-- name: limit_lock_wait
SELECT set_config('lock_timeout', %(limit)s, true)

-- name: plan_for_these_values
SELECT set_config('plan_cache_mode', 'force_custom_plan', true)
