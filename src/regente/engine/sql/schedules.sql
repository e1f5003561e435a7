-- Schedules. A sweep locks the schedules that are due, and decides in a later statement, whose
-- snapshot shows all that was committed before: that of the locking one may be older than the lock.

-- name: due_schedules
-- At most so many runs of a schedule wait; the other times stay due.
SELECT name, cron, timezone, next_at, catch_up, regente.clock() AS now
FROM regente.schedules s
WHERE enabled AND paused_at IS NULL AND next_at <= regente.clock()
  AND (overlap <> 'queue'
       OR (SELECT count(*) FROM regente.schedule_runs r
           WHERE r.schedule = s.name AND r.state = 'waiting') < %(max_waiting)s)
ORDER BY next_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: fire_schedule
-- Deal with the times that have come: queue a task, let the run wait or skip it while another is
-- unfinished, and note those that were missed. A time that was dealt with before is left out.
WITH schedule AS MATERIALIZED (
  SELECT s.*, regente.schedule_is_busy(s.name, s.last_task) AS busy
  FROM regente.schedules s WHERE s.name = %(name)s
),
wanted AS MATERIALIZED (
  SELECT w.due_at, regente.schedule_key(s.name, w.due_at) AS key,
         CASE WHEN s.overlap = 'allow' OR (w.place = 1 AND NOT s.busy) THEN 'queued'
              WHEN s.overlap = 'skip' THEN 'skipped' ELSE 'waiting' END AS state
  FROM schedule s, unnest(%(runs)s::timestamptz[]) WITH ORDINALITY AS w (due_at, place)
  WHERE NOT EXISTS (SELECT FROM regente.schedule_runs r
                    WHERE r.schedule = s.name AND r.due_at = w.due_at)
),
-- include: queue_runs
noted AS (
  INSERT INTO regente.schedule_runs (schedule, due_at, state, times, task_id)
  SELECT %(name)s, w.due_at, w.state, 1, q.id FROM wanted w LEFT JOIN queued q ON q.key = w.key
  UNION ALL
  SELECT %(name)s, min(m.due_at), 'missed', count(*), NULL
  FROM unnest(%(missed)s::timestamptz[]) AS m (due_at) HAVING count(*) > 0
  ON CONFLICT DO NOTHING
  RETURNING due_at, state, times
),
moved AS (
  UPDATE regente.schedules s
  SET next_at = %(next_at)s, last_task = coalesce((SELECT max(id) FROM queued), s.last_task),
      last_at = CASE WHEN EXISTS (SELECT FROM queued) THEN regente.clock() ELSE s.last_at END
  WHERE s.name = %(name)s
),
told AS (
  INSERT INTO regente.events (event, details)
  SELECT 'schedule_run_' || n.state,
         jsonb_build_object('schedule', %(name)s::text, 'due_at', n.due_at, 'times', n.times)
  FROM noted n WHERE n.state <> 'queued' ORDER BY n.due_at
)
-- include: what_was_queued

-- name: waiting_schedules
-- The next ones by name, so that each has its turn in every sweep.
SELECT name FROM regente.schedules s
WHERE enabled AND paused_at IS NULL AND name > %(after)s
  AND name IN (SELECT r.schedule FROM regente.schedule_runs r WHERE r.state = 'waiting')
  AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.id = s.last_task AND t.status < 'completed')
ORDER BY name LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: start_waiting_run
-- The oldest run that waits becomes a task, unless the last one is unfinished after all.
WITH schedule AS MATERIALIZED (
  SELECT s.* FROM regente.schedules s
  WHERE s.name = %(name)s AND NOT EXISTS (SELECT FROM regente.tasks t
                                          WHERE t.id = s.last_task AND t.status < 'completed')
),
wanted AS MATERIALIZED (
  SELECT r.due_at, regente.schedule_key(s.name, r.due_at) AS key, 'queued' AS state
  FROM schedule s, regente.schedule_runs r
  WHERE r.schedule = s.name AND r.state = 'waiting' ORDER BY r.due_at LIMIT 1
),
-- include: queue_runs
noted AS (
  UPDATE regente.schedule_runs r
  SET state = 'queued', at = regente.clock(), task_id = (SELECT id FROM queued)
  FROM wanted w WHERE r.schedule = %(name)s AND r.due_at = w.due_at
),
fired AS (
  UPDATE regente.schedules s SET last_at = regente.clock(), last_task = q.id
  FROM queued q WHERE s.name = %(name)s
)
-- include: what_was_queued

-- name: queue_runs
-- Tasks for the wanted times, spread over the jitter.
spread AS MATERIALIZED (
  SELECT w.due_at, w.key, regente.clock() + random() * s.jitter AS run_at,
         CASE WHEN s.due_as IS NULL THEN s.args
              ELSE s.args || jsonb_build_object(s.due_as, to_char(
                w.due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) END AS args
  FROM wanted w, schedule s WHERE w.state = 'queued'
),
queued AS (
  INSERT INTO regente.tasks (pipeline, args, priority, key, queued_at, lane, run_at, lane_run_at)
  SELECT s.pipeline, p.args, s.priority, p.key, regente.clock(), s.lane,
         CASE WHEN s.lane IS NULL THEN p.run_at ELSE regente.in_lane() END,
         CASE WHEN s.lane IS NOT NULL THEN p.run_at END
  FROM spread p, schedule s ORDER BY p.due_at
  ON CONFLICT (pipeline, key) WHERE key IS NOT NULL DO NOTHING
  RETURNING id, key
),
logged AS (
  INSERT INTO regente.events (task_id, event, details)
  SELECT q.id, 'task_queued', jsonb_build_object('schedule', s.name, 'due_at', p.due_at)
  FROM queued q JOIN spread p ON p.key = q.key, schedule s ORDER BY q.id
),

-- name: what_was_queued
SELECT s.lane, s.pipeline, pg_notify('regente_queued', s.pipeline)
FROM schedule s WHERE EXISTS (SELECT FROM queued)

-- name: disable_schedule
WITH disabled AS (UPDATE regente.schedules SET enabled = false WHERE name = %(name)s RETURNING name)
INSERT INTO regente.events (event, details)
SELECT 'schedule_disabled', jsonb_build_object('schedule', name, 'reason', %(reason)s::text)
FROM disabled
RETURNING id

-- name: put_schedule
-- A paused one stays paused, and a time that is due stays due: each deploy repeats the call.
INSERT INTO regente.schedules (name, pipeline, args, cron, timezone, priority, next_at, lane,
                               overlap, catch_up, due_as, jitter)
VALUES (%(name)s, %(pipeline)s, %(args)s::jsonb, %(cron)s, %(timezone)s, %(priority)s, %(next_at)s,
        %(lane)s, %(overlap)s, %(catch_up)s, %(due_as)s,
        make_interval(secs => %(jitter_seconds)s::double precision))
ON CONFLICT (name) DO UPDATE
SET pipeline = excluded.pipeline, args = excluded.args, timezone = excluded.timezone,
    priority = excluded.priority, lane = excluded.lane, overlap = excluded.overlap,
    catch_up = excluded.catch_up, due_as = excluded.due_as, jitter = excluded.jitter,
    enabled = schedules.enabled OR schedules.paused_at IS NULL
        AND (schedules.cron, schedules.timezone) <> (excluded.cron, excluded.timezone),
    next_at = CASE WHEN schedules.cron = excluded.cron
        AND schedules.timezone = excluded.timezone THEN schedules.next_at
                   ELSE excluded.next_at END,
    cron = excluded.cron

-- name: pause_schedule
WITH paused AS (
  UPDATE regente.schedules SET enabled = false, paused_at = regente.clock()
  WHERE name = %(name)s AND paused_at IS NULL RETURNING name
),
logged AS (
  INSERT INTO regente.events (event, details)
  SELECT 'schedule_paused',
         coalesce(%(details)s::jsonb, '{}') || jsonb_build_object('schedule', name) FROM paused
)
SELECT name FROM regente.schedules WHERE name = %(name)s

-- name: schedule_to_resume
SELECT cron, timezone, regente.clock() AS now FROM regente.schedules WHERE name = %(name)s
FOR UPDATE

-- name: resume_schedule
-- With `next_at` the times that came meanwhile are left out.
WITH before AS MATERIALIZED (
  SELECT name, next_at FROM regente.schedules
  WHERE name = %(name)s AND (NOT enabled OR paused_at IS NOT NULL) FOR UPDATE
),
resumed AS (
  UPDATE regente.schedules s
  SET enabled = true, paused_at = NULL,
      next_at = greatest(s.next_at, coalesce(%(next_at)s::timestamptz, s.next_at))
  FROM before b WHERE s.name = b.name
  RETURNING s.name, CASE WHEN s.next_at > b.next_at THEN b.next_at END AS skipped_from
)
INSERT INTO regente.events (event, details)
SELECT 'schedule_resumed', coalesce(%(details)s::jsonb, '{}') || jsonb_strip_nulls(
         jsonb_build_object('schedule', name, 'skipped_from', skipped_from))
FROM resumed
RETURNING id

-- name: remove_schedule
DELETE FROM regente.schedules WHERE name = %(name)s RETURNING name

-- name: list_schedules
SELECT s.name, s.pipeline, s.args, s.cron, s.timezone, s.priority, s.lane, s.overlap, s.catch_up,
       s.due_as,
       extract(epoch FROM s.jitter)::double precision AS jitter_seconds, s.enabled, s.paused_at,
       CASE WHEN s.paused_at IS NOT NULL THEN 'paused' WHEN s.enabled THEN 'enabled'
            ELSE 'disabled' END AS state,
       s.next_at, s.last_at, s.last_task, t.status::text AS last_status,
       (SELECT count(*) FROM regente.schedule_runs r
        WHERE r.schedule = s.name AND r.state = 'waiting') AS waiting
FROM regente.schedules s LEFT JOIN regente.tasks t ON t.id = s.last_task
WHERE %(name)s::text IS NULL OR s.name = %(name)s
ORDER BY s.name

-- name: schedule_runs
SELECT r.due_at, r.state, r.times, r.at, r.task_id, t.status::text AS task_status, t.error_code
FROM regente.schedule_runs r LEFT JOIN regente.tasks t ON t.id = r.task_id
WHERE r.schedule = %(name)s
  AND (%(before)s::timestamptz IS NULL OR r.due_at < %(before)s::timestamptz)
ORDER BY r.due_at DESC LIMIT %(limit)s

-- name: forget_schedule_runs
-- By the primary key: the oldest of each schedule.
DELETE FROM regente.schedule_runs r USING regente.schedules s
WHERE r.schedule = s.name AND r.state <> 'waiting'
  AND r.due_at < regente.clock() - make_interval(secs => %(keep_seconds)s::double precision)
RETURNING r.due_at
