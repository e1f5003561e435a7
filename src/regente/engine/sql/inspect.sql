-- Queries of the client.

-- name: get_tasks
SELECT t.id, t.pipeline, t.status::text AS status, t.key, t.batch_id, t.priority, t.args, t.result,
       t.attempt, t.tries,
       t.crashes, t.max_attempts, t.run_at, t.created_at, t.queued_at, t.started_at, t.claimed_at,
       t.heartbeat_at,
       t.finished_at, t.cancel_requested_at, t.checkpoint, t.progress, t.error_code,
       t.error_message, t.runner_id,
       r.name AS runner, r.lease_until
FROM regente.tasks t LEFT JOIN regente.runners r ON r.id = t.runner_id
WHERE t.id = ANY (%(ids)s::bigint[])
ORDER BY t.id

-- name: list_tasks
SELECT t.id, t.pipeline, t.status::text AS status, t.key, t.batch_id, t.priority, t.args, t.result,
       t.attempt, t.tries,
       t.crashes, t.max_attempts, t.run_at, t.created_at, t.queued_at, t.started_at, t.claimed_at,
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

-- name: counts
SELECT status::text, count(*) FROM regente.tasks WHERE %(pipeline)s::text IS NULL
    OR pipeline = %(pipeline)s GROUP BY status

-- name: steps_of_task
SELECT name, item, attempt, duration_ms, finished_at, output FROM regente.steps
WHERE task_id = %(task_id)s ORDER BY finished_at, name, item LIMIT %(limit)s

-- name: events_of_task
SELECT id, txid::text AS txid, at, task_id, batch_id, runner_id, attempt, event, details
FROM regente.events
WHERE task_id = %(task_id)s ORDER BY id LIMIT %(limit)s

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
       t.run_at, t.heartbeat_at, t.runner_id, r.name AS runner, r.lease_until,
       t.cancel_requested_at,
       extract(epoch FROM t.run_at - regente.clock())::double precision AS due_in_seconds,
       regente.is_held(t.run_at) AS held,
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
        WHERE t.status = 'queued' AND b.status = 'queued' AND b.pipeline = t.pipeline
          AND b.run_at <= regente.clock()
          AND (b.priority > t.priority OR b.priority = t.priority
               AND (b.run_at, b.id) < (t.run_at, t.id))
        LIMIT 10001) AS ahead) AS ahead,
       (SELECT e.event FROM regente.events e WHERE e.task_id = t.id AND e.event LIKE 'task\_%%'
        ORDER BY e.id DESC LIMIT 1) AS last_event
FROM regente.tasks t LEFT JOIN regente.runners r ON r.id = t.runner_id LEFT
JOIN regente.pipelines p ON p.name = t.pipeline
WHERE t.id = %(task_id)s

-- name: read_feed
-- Only events that no running transaction can precede. Order and position are (txid, id).
SELECT e.id, e.txid::text AS txid, e.at, e.task_id, e.batch_id, e.runner_id, e.attempt, e.event,
       e.details FROM regente.events e
WHERE (e.txid, e.id) > (%(after_txid)s::xid8, %(after_id)s::bigint)
  AND e.txid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY e.txid, e.id LIMIT %(limit)s  -- `txid` alone would be the output column, a text

-- name: rebase_feed
-- After a restore into another cluster transaction ids start again, below the stored ones. Old
-- events keep their order by id.
UPDATE regente.events SET txid = '0' WHERE txid >= pg_snapshot_xmax(pg_current_snapshot())

-- name: pipelines
SELECT name, paused, paused_at, seen_at, max_attempts,
       extract(epoch FROM stall_after)::double precision AS stall_after_seconds
FROM regente.pipelines ORDER BY name

-- name: now
SELECT regente.clock()

-- name: backend_pid
-- Differs from the pid that the connection got at its start when a pooler is in between.
SELECT pg_backend_pid()

-- name: listen_queued
LISTEN regente_queued

-- name: listen_cancel
LISTEN regente_cancel

-- name: plan_for_these_values
SELECT set_config('plan_cache_mode', 'force_custom_plan', true)
