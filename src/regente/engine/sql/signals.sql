-- Signals: how a task waits for one and receives it. Each statement passes the fence and locks the
-- task's row, but does not wait long for a row that another session has locked.

-- name: send_signal
SELECT regente.signal(%(task_id)s::bigint, %(name)s::text, %(payload)s::json, %(key)s::text,
                      %(details)s::jsonb), t.pipeline, t.lane, pg_current_xact_id()::text
FROM (SELECT set_config('lock_timeout', '1s', true)) AS limited
LEFT JOIN regente.tasks t ON t.id = %(task_id)s::bigint

-- name: look_for_signal
-- The oldest signal of that name that was not received, and whether the time to wait is over. What
-- is sent while this looks is found when the task begins to wait (regente.waits_until).
WITH fenced AS (
  UPDATE regente.tasks t SET heartbeat_at = regente.clock()
  WHERE t.id = %(task_id)s AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
    AND (SELECT set_config('lock_timeout', '200ms', true)) IS NOT NULL
  RETURNING t.id, t.attempt
),
waiting AS (
  INSERT INTO regente.waits AS w (task_id, attempt, until, step, signal)
  SELECT id, attempt,
         regente.clock() + make_interval(secs => %(timeout_seconds)s::double precision),
         %(step)s, %(signal)s
  FROM fenced
  ON CONFLICT (task_id, step) DO UPDATE SET attempt = excluded.attempt
  RETURNING w.task_id, w.until
)
SELECT s.id, s.payload::text,
       extract(epoch FROM w.until - regente.clock())::double precision AS left_seconds
FROM waiting w LEFT JOIN LATERAL (
  SELECT s.id, s.payload FROM regente.signals s
  WHERE s.task_id = w.task_id AND s.name = %(signal)s AND s.ended_at IS NULL
  ORDER BY s.id LIMIT 1) AS s ON true

-- name: receive_signal
-- The signal is taken and the step recorded; without a signal, that the time to wait is over. No
-- row: the attempt has lost its task. False: another wait of the attempt has taken the signal.
WITH fenced AS (
  UPDATE regente.tasks t SET heartbeat_at = regente.clock(), checkpoint = %(step)s
  WHERE t.id = %(task_id)s AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
    AND (SELECT set_config('lock_timeout', '200ms', true)) IS NOT NULL
  RETURNING t.id, t.attempt, t.batch_id
),
taken AS (
  UPDATE regente.signals s SET ended_at = regente.clock(), step = %(step)s
  FROM fenced
  WHERE s.id = %(signal_id)s::bigint AND s.task_id = fenced.id AND s.ended_at IS NULL
  RETURNING s.id
),
recorded AS (
  INSERT INTO regente.steps (task_id, name, attempt, output, call)
  SELECT id, %(step)s, attempt, %(output)s::json, %(call)s FROM fenced
  WHERE %(signal_id)s::bigint IS NULL OR EXISTS (SELECT FROM taken)
  ON CONFLICT DO NOTHING RETURNING task_id
),
over AS (
  DELETE FROM regente.waits w USING recorded WHERE w.task_id = recorded.task_id
  AND w.step = %(step)s
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT fenced.id, fenced.batch_id, %(runner_id)s::bigint, fenced.attempt,
         CASE WHEN %(signal_id)s::bigint IS NULL THEN 'task_signal_missed'
              ELSE 'task_signal_received' END,
         jsonb_build_object('signal', %(signal)s::text)
  FROM fenced JOIN recorded ON recorded.task_id = fenced.id
)
SELECT EXISTS (SELECT FROM recorded)  -- or by the same statement, whose answer got lost
       OR EXISTS (SELECT FROM regente.steps s WHERE s.task_id = fenced.id AND s.name = %(step)s)
FROM fenced

-- name: refuse_signal
WITH fenced AS (
  UPDATE regente.tasks t SET heartbeat_at = regente.clock()
  WHERE t.id = %(task_id)s AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint AND t.status IS NOT DISTINCT
        FROM 'running'
    AND (SELECT set_config('lock_timeout', '200ms', true)) IS NOT NULL
  RETURNING t.id, t.attempt, t.batch_id
),
refused AS (
  UPDATE regente.signals s SET ended_at = regente.clock() FROM fenced
  WHERE s.id = %(signal_id)s::bigint AND s.task_id = fenced.id AND s.ended_at IS NULL
  RETURNING s.task_id, s.name
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT fenced.id, fenced.batch_id, %(runner_id)s::bigint, fenced.attempt, 'task_signal_refused',
         jsonb_build_object('signal', refused.name, 'reason', %(reason)s::text)
  FROM fenced JOIN refused ON refused.task_id = fenced.id
)
SELECT id FROM fenced

-- name: waiting_for_signals
SELECT t.id AS task_id, t.pipeline, t.batch_id, w.step, w.signal, w.since, w.until,
       (SELECT e.details ->> 'reason' FROM regente.events e
        WHERE e.task_id = t.id AND e.event = 'task_signal_refused'
          AND e.details ->> 'signal' = w.signal ORDER BY e.id DESC LIMIT 1) AS refused
FROM regente.waits w JOIN regente.tasks t ON t.id = w.task_id
WHERE w.signal IS NOT NULL AND w.attempt = t.attempt AND t.status = 'queued'
  AND (%(task_id)s::bigint IS NULL OR w.task_id = %(task_id)s)
  AND (%(signal)s::text IS NULL OR w.signal = %(signal)s)
ORDER BY w.since, w.task_id, w.step LIMIT %(limit)s
