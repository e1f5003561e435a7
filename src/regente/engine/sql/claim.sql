-- A runner claims tasks. The EXPLAIN tests guard the form of these statements: with `ctid = ANY
-- (ARRAY(SELECT …))` PostgreSQL goes directly to the locked rows; with `id IN (SELECT …)` it
-- changes to a sequential scan from about a hundred rows on. A row that was updated between the
-- statement's snapshot and its lock is left for the next claim.

-- name: claim
-- One index range for each pipeline and priority level, from the level's floor to now. Without the
-- floor every scan would step over the index entries of earlier claims that vacuum has not removed
-- yet. Levels are claimed in the given order (a join with `pipelines` could change it), and all
-- levels of a pipeline share its slots.
WITH claimed AS (
  UPDATE regente.tasks SET status = 'running', attempt = attempt + 1,
         runner_id = %(runner_id)s::bigint,
         claimed_at = regente.clock(), started_at = coalesce(started_at, regente.clock()),
         heartbeat_at = regente.clock()
  WHERE status = 'queued' AND ctid = ANY (ARRAY(
    SELECT picked.ctid
    FROM (
      SELECT w.pipeline, max(w.slots) AS slots
      FROM unnest(%(pipelines)s::text[], %(limits)s::integer[]) WITH ORDINALITY
          AS w (pipeline, slots, place)
      WHERE NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = w.pipeline AND p.paused)
      GROUP BY w.pipeline ORDER BY min(w.place)) AS wanted
    CROSS JOIN LATERAL (
      SELECT due.ctid
      FROM unnest(%(pipelines)s::text[], %(priorities)s::smallint[], %(floors)s::timestamptz[])
        AS level (pipeline, priority, floor)
      CROSS JOIN LATERAL (
        SELECT t.ctid FROM regente.tasks t
        WHERE t.pipeline = level.pipeline AND t.status = 'queued' AND t.priority = level.priority
          AND t.run_at >= level.floor AND t.run_at <= regente.clock() AND t.crashes < 2
        ORDER BY t.run_at, t.id LIMIT wanted.slots FOR UPDATE SKIP LOCKED) AS due
      WHERE level.pipeline = wanted.pipeline
      LIMIT wanted.slots) AS picked
    WHERE EXISTS (SELECT FROM regente.runners r
                  WHERE r.id = %(runner_id)s::bigint AND r.status = 'running'
                    AND r.lease_until > regente.clock())
    LIMIT %(free)s::integer))
  RETURNING id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event)
  SELECT id, batch_id, %(runner_id)s::bigint, attempt, 'task_claimed' FROM claimed
)
SELECT id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args::text FROM claimed

-- name: claim_suspect
-- A task whose runner died twice while it was running is a suspect. Suspects run one at a time:
-- when the runner dies again, the suspect is to blame, and not the tasks beside it.
WITH claimed AS (
  UPDATE regente.tasks SET status = 'running', attempt = attempt + 1,
         runner_id = %(runner_id)s::bigint,
         claimed_at = regente.clock(), started_at = coalesce(started_at, regente.clock()),
         heartbeat_at = regente.clock()
  WHERE status = 'queued' AND ctid = ANY (ARRAY(
    SELECT t.ctid FROM regente.tasks t
    WHERE t.pipeline || '' = ANY (%(pipelines)s::text[]) AND t.status = 'queued' AND t.crashes >= 2
      AND t.run_at <= regente.clock()
      AND EXISTS (SELECT FROM regente.runners r
                  WHERE r.id = %(runner_id)s::bigint AND r.status = 'running'
                    AND r.lease_until > regente.clock())
      AND NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = t.pipeline AND p.paused)
    ORDER BY t.run_at, t.id LIMIT 1 FOR UPDATE SKIP LOCKED))
  RETURNING id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, %(runner_id)s::bigint, attempt, 'task_claimed', '{"alone": true}'
  FROM claimed
)
SELECT id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args::text FROM claimed

-- name: survey
-- The priority levels in use and the first task of each, with one index probe for each level.
SELECT wanted.pipeline, first.priority, first.run_at::text AS floor,
       extract(epoch FROM first.run_at - regente.clock())::double precision AS due_seconds
FROM unnest(%(pipelines)s::text[]) AS wanted (pipeline)
CROSS JOIN LATERAL (
  WITH RECURSIVE level (priority) AS (
    (SELECT t.priority FROM regente.tasks t WHERE t.pipeline = wanted.pipeline
     AND t.status = 'queued'
     ORDER BY t.priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT t.priority FROM regente.tasks t
            WHERE t.pipeline = wanted.pipeline AND t.status = 'queued'
              AND t.priority < level.priority
            ORDER BY t.priority DESC LIMIT 1)
    FROM level WHERE level.priority IS NOT NULL)
  SELECT level.priority, t.run_at FROM level CROSS JOIN LATERAL (
    SELECT t.run_at FROM regente.tasks t
    WHERE t.pipeline = wanted.pipeline AND t.status = 'queued' AND t.priority = level.priority
    ORDER BY t.run_at LIMIT 1) AS t) AS first
WHERE NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = wanted.pipeline AND p.paused)

-- name: anything_running
SELECT EXISTS (SELECT FROM regente.tasks t WHERE t.status = 'running'
               AND t.pipeline = ANY (%(pipelines)s::text[]))
