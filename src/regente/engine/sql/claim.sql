-- A runner claims tasks. The EXPLAIN tests guard the form of these statements: with `ctid = ANY
-- (ARRAY(SELECT …))` PostgreSQL goes directly to the locked rows; with `id IN (SELECT …)` it
-- changes to a sequential scan from about a hundred rows on. A row that was updated between the
-- statement's snapshot and its lock is left for the next claim.

-- name: claim
-- One index range for each pipeline and rank (a priority's returned tasks, or its new ones), from
-- the level's floor (the `run_at` and id of a task) to now. Without the floor every scan would step
-- over the index entries of earlier claims that vacuum has not removed yet. Each pipeline has its
-- slots for all its levels, which are those at the positions `first` to `last`: a join of pipelines
-- and levels would compare each with each. Levels are claimed in the given order (a join with
-- `pipelines` could change it).
WITH claimed AS (
  UPDATE regente.tasks SET status = 'running', attempt = attempt + 1,
         runner_id = %(runner_id)s::bigint,
         claimed_at = regente.clock(), started_at = coalesce(started_at, regente.clock()),
         heartbeat_at = regente.clock()
  WHERE status = 'queued' AND ctid = ANY (ARRAY(
    SELECT picked.ctid
    FROM (
      SELECT w.pipeline, w.slots, w.first, w.last
      FROM unnest(%(pipelines)s::text[], %(limits)s::integer[], %(firsts)s::integer[],
                  %(lasts)s::integer[])
        WITH ORDINALITY AS w (pipeline, slots, first, last, place)
      WHERE NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = w.pipeline AND p.paused)
      ORDER BY w.place) AS wanted
    CROSS JOIN LATERAL (
      SELECT due.ctid
      FROM generate_series(wanted.first, wanted.last) AS level (place)
      CROSS JOIN LATERAL (
        SELECT t.ctid FROM regente.tasks t
        WHERE t.pipeline = wanted.pipeline AND t.status = 'queued'
          AND regente.claim_rank(t.priority, t.attempt) = (%(ranks)s::integer[])[level.place]
          AND (t.run_at, t.id) >= (to_timestamp((%(floors)s::double precision[])[level.place]),
                                   (%(floor_ids)s::bigint[])[level.place])
          AND t.run_at <= regente.clock() AND t.crashes < 2
        ORDER BY t.run_at, t.id LIMIT wanted.slots FOR UPDATE SKIP LOCKED) AS due
      LIMIT wanted.slots) AS picked
    WHERE EXISTS (SELECT FROM regente.runners r
                  WHERE r.id = %(runner_id)s::bigint AND r.status = 'running'
                    AND r.lease_until > regente.clock())
    LIMIT %(free)s::integer))
  RETURNING id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args, created_at,
            priority, run_at
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event)
  SELECT id, batch_id, %(runner_id)s::bigint, attempt, 'task_claimed' FROM claimed
)
SELECT id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args::text,
       (extract(epoch FROM created_at) * 1000000)::bigint AS born_us, priority,
       extract(epoch FROM run_at)::double precision AS run_at
FROM claimed

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
  RETURNING id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args, created_at,
            priority, run_at
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, %(runner_id)s::bigint, attempt, 'task_claimed', '{"alone": true}'
  FROM claimed
)
SELECT id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args::text,
       (extract(epoch FROM created_at) * 1000000)::bigint AS born_us, priority,
       extract(epoch FROM run_at)::double precision AS run_at
FROM claimed

-- name: survey
-- All priority levels in use and the first task of each. Steps over every index entry of claimed
-- tasks that is still there, so its time is measured.
SELECT wanted.pipeline, first.rank,
       extract(epoch FROM first.run_at)::double precision AS first,
       extract(epoch FROM regente.clock())::double precision AS now, first.id AS first_id,
       extract(epoch FROM clock_timestamp() - statement_timestamp())::double precision AS took
FROM unnest(%(pipelines)s::text[]) AS wanted (pipeline)
LEFT JOIN LATERAL (
  WITH RECURSIVE level (rank) AS (
    (SELECT regente.claim_rank(t.priority, t.attempt) FROM regente.tasks t
     WHERE t.pipeline = wanted.pipeline AND t.status = 'queued'
     ORDER BY regente.claim_rank(t.priority, t.attempt) DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT regente.claim_rank(t.priority, t.attempt) FROM regente.tasks t
            WHERE t.pipeline = wanted.pipeline AND t.status = 'queued'
              AND regente.claim_rank(t.priority, t.attempt) < level.rank
            ORDER BY regente.claim_rank(t.priority, t.attempt) DESC LIMIT 1)
    FROM level WHERE level.rank IS NOT NULL)
  SELECT level.rank, t.run_at, t.id FROM level CROSS JOIN LATERAL (
    SELECT t.run_at, t.id FROM regente.tasks t
    WHERE t.pipeline = wanted.pipeline AND t.status = 'queued'
      AND regente.claim_rank(t.priority, t.attempt) = level.rank
    ORDER BY t.run_at, t.id LIMIT 1) AS t) AS first ON true
WHERE NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = wanted.pipeline AND p.paused)

-- name: survey_levels
-- The first task of each of these levels, from its floor on: one index probe for each.
SELECT level.pipeline, level.rank,
       extract(epoch FROM first.run_at)::double precision AS first,
       extract(epoch FROM regente.clock())::double precision AS now, first.id AS first_id
FROM unnest(%(pipelines)s::text[], %(ranks)s::integer[], %(floors)s::double precision[],
            %(floor_ids)s::bigint[])
  AS level (pipeline, rank, floor, floor_id)
LEFT JOIN LATERAL (
  SELECT t.run_at, t.id FROM regente.tasks t
  WHERE t.pipeline = level.pipeline AND t.status = 'queued'
    AND regente.claim_rank(t.priority, t.attempt) = level.rank
    AND (t.run_at, t.id) >= (to_timestamp(level.floor), level.floor_id)
    AND t.run_at < regente.in_lane()
  ORDER BY t.run_at, t.id LIMIT 1) AS first ON true
WHERE NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = level.pipeline AND p.paused)

-- name: anything_running
SELECT EXISTS (SELECT FROM regente.tasks t WHERE t.status = 'running'
               AND t.pipeline = ANY (%(pipelines)s::text[]))
