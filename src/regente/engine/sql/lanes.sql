-- Lanes. A claim alone decides exactly, under the lane's lock: it counts what runs, takes tokens,
-- and moves the lane's turn on. `ready_at` of a lane's queue only says where it is worth looking.
-- A claim that finds a lane full or its queue empty sets it to NULL, commits and looks again
-- (`look_at_lanes`); an end and an enqueue look after their own commit. One of two that meet sees
-- what the other has committed, so none is missed while their processes live; a sweep finds the
-- rest.

-- name: lane_settings
       l.name AS lane,
       coalesce(l.concurrency, (l.defaults ->> 'concurrency')::integer, p.lane_concurrency)
         AS concurrency,
       coalesce(l.rate, (l.defaults ->> 'rate')::double precision, p.lane_rate) AS rate,
       coalesce(l.burst, (l.defaults ->> 'burst')::integer, p.lane_burst,
                greatest(1, ceil(coalesce(l.rate, (l.defaults ->> 'rate')::double precision,
                                          p.lane_rate))::integer)) AS burst,
       coalesce(l.weight, (l.defaults ->> 'weight')::integer, p.lane_weight, 1) AS weight,
       nullif(coalesce(l.breaker, (l.defaults ->> 'breaker')::integer, p.lane_breaker, 0), 0)
         AS breaker,
       coalesce(l.min_rate, (l.defaults ->> 'min_rate')::double precision, p.lane_min_rate,
                coalesce(l.rate, (l.defaults ->> 'rate')::double precision, p.lane_rate) / 16)
         AS min_rate,
       coalesce(l.rate, (l.defaults ->> 'rate')::double precision, p.lane_rate) * l.pace
         AS pace_rate,
       l.pace, l.slowed_at, l.tokens_until, l.parked_until, l.parked_because, l.failures, l.opened,
       l.breaker_state, l.probe_id, l.used_at

-- name: claim_lanes
-- The lanes that have been ready longest take their turns: up to `weight` times the quantum of
-- tasks each, of which a claim may leave a rest for the next one, when the runner has no more free
-- slots. A lane is locked for the claim; those that another claim has locked are left to it. The
-- last rows tell which queues are now to be looked at, and how many were ready.
WITH ready AS MATERIALIZED (
  SELECT q.lane, q.pipeline, q.turn_left, q.ready_at, q.visited_at, q.taken, q.per_second,
         wanted.slots, wanted.place
  FROM (
    SELECT w.pipeline, w.slots, w.place
    FROM unnest(%(pipelines)s::text[], %(limits)s::integer[])
      WITH ORDINALITY AS w (pipeline, slots, place)
    WHERE w.slots > 0
      AND NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = w.pipeline AND p.paused)
      AND EXISTS (SELECT FROM regente.runners r
                  WHERE r.id = %(runner_id)s::bigint AND r.status = 'running'
                    AND r.lease_until > regente.clock())) AS wanted
  CROSS JOIN LATERAL (
    SELECT q.lane, q.pipeline, q.turn_left, q.ready_at, q.visited_at, q.taken, q.per_second
    FROM regente.lane_queues q
    WHERE q.pipeline = wanted.pipeline AND q.ready_at <= regente.clock()
    ORDER BY q.ready_at LIMIT %(lanes)s::integer FOR UPDATE SKIP LOCKED) AS q
),
locked AS MATERIALIZED (
  SELECT ready.pipeline, ready.turn_left, ready.ready_at, ready.visited_at, ready.taken,
         ready.per_second, ready.slots, ready.place, l.*,
         row_number() OVER (PARTITION BY l.lane ORDER BY ready.ready_at, ready.place) AS visit
  FROM ready CROSS JOIN LATERAL (
    SELECT
    -- include: lane_settings
    FROM (SELECT * FROM regente.lanes n WHERE n.name = ready.lane FOR UPDATE SKIP LOCKED) AS l
    LEFT JOIN regente.pipelines p ON p.name = l.pipeline AND l.defaults IS NULL) AS l
),
running AS MATERIALIZED (
  SELECT r.lane, r.running
  FROM regente.running_in_lanes(ARRAY(SELECT lane FROM locked
                                      WHERE visit = 1 AND concurrency IS NOT NULL)) AS r
),
limited AS MATERIALIZED (
  SELECT k.*, k.concurrency - r.running AS places,
         CASE WHEN k.parked_until > regente.clock() OR k.breaker_state = 'probing' THEN 0
              ELSE greatest(0, least(
                k.concurrency - r.running,
                -- The small part more is for rounding.
                floor(k.burst + 0.000001 - k.pace_rate * greatest(0, extract(
                  epoch FROM k.tokens_until - regente.clock())::double precision)),
                CASE k.breaker_state WHEN 'open' THEN 1 END,
                10000))::integer END AS room
  FROM locked k LEFT JOIN running r ON r.lane = k.lane
  WHERE k.visit = 1
),
turn AS MATERIALIZED (
  SELECT n.*, least(n.credit, n.room) AS wants,
         row_number() OVER (ORDER BY n.place, n.ready_at, n.lane) AS rank
  FROM (
    SELECT m.*, CASE WHEN m.turn_left > 0 THEN m.turn_left ELSE least(10000, m.weight * greatest(
      %(quantum)s::integer,
      ceil(%(free)s::integer::double precision
           / nullif(sum(m.weight) FILTER (WHERE m.room > 0) OVER (), 0)))) END::integer AS credit
    FROM limited m) AS n
),
picked AS MATERIALIZED (
  SELECT picked.rank, picked.ctid
  FROM (SELECT pipeline, slots FROM turn GROUP BY pipeline, slots, place ORDER BY place) AS wanted
  CROSS JOIN LATERAL (
    SELECT lane.rank, due.ctid
    FROM (SELECT turn.rank, turn.lane, turn.wants FROM turn
          WHERE turn.pipeline = wanted.pipeline AND turn.wants > 0 ORDER BY turn.rank) AS lane
    CROSS JOIN LATERAL (
      SELECT first.ctid
      FROM (
        WITH RECURSIVE level (rank) AS (
          (SELECT regente.claim_rank(t.priority, t.attempt) FROM regente.tasks t
           WHERE t.lane = lane.lane AND t.pipeline = wanted.pipeline AND t.status = 'queued'
           ORDER BY regente.claim_rank(t.priority, t.attempt) DESC LIMIT 1)
          UNION ALL
          SELECT (SELECT regente.claim_rank(t.priority, t.attempt) FROM regente.tasks t
                  WHERE t.lane = lane.lane AND t.pipeline = wanted.pipeline
                    AND t.status = 'queued'
                    AND regente.claim_rank(t.priority, t.attempt) < level.rank
                  ORDER BY regente.claim_rank(t.priority, t.attempt) DESC LIMIT 1)
          FROM level WHERE level.rank IS NOT NULL)
        SELECT level.rank FROM level WHERE level.rank IS NOT NULL) AS level
      CROSS JOIN LATERAL (
        SELECT t.ctid FROM regente.tasks t
        WHERE t.lane = lane.lane AND t.pipeline = wanted.pipeline AND t.status = 'queued'
          AND regente.claim_rank(t.priority, t.attempt) = level.rank
          AND t.lane_run_at <= regente.clock() AND t.crashes < 2
        ORDER BY t.lane_run_at, t.id LIMIT lane.wants FOR UPDATE SKIP LOCKED) AS first
      LIMIT lane.wants) AS due
    LIMIT wanted.slots) AS picked
  LIMIT %(free)s::integer
),
claimed AS (
  UPDATE regente.tasks SET status = 'running', attempt = attempt + 1,
         runner_id = %(runner_id)s::bigint,
         claimed_at = regente.clock(), started_at = coalesce(started_at, regente.clock()),
         heartbeat_at = regente.clock()
  WHERE status = 'queued' AND ctid = ANY (ARRAY(SELECT ctid FROM picked))
  RETURNING id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args, created_at,
            priority, lane, lane_run_at
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event)
  SELECT id, batch_id, %(runner_id)s::bigint, attempt, 'task_claimed' FROM claimed
),
visited AS MATERIALIZED (
  SELECT v.*,
         (v.all_taken >= %(free)s::integer AND v.rank > v.last_of_all)
           OR (v.pipeline_taken >= v.slots AND v.rank > v.last_of_pipeline) AS not_reached,
         v.took < v.wants
           AND ((v.all_taken >= %(free)s::integer AND v.rank = v.last_of_all)
                OR (v.pipeline_taken >= v.slots AND v.rank = v.last_of_pipeline)) AS cut_short
  FROM (
    SELECT turn.*, coalesce(t.took, 0)::integer AS took,
           coalesce(sum(t.took) OVER (), 0) AS all_taken,
           coalesce(sum(t.took) OVER (PARTITION BY turn.pipeline), 0) AS pipeline_taken,
           coalesce(max(turn.rank) FILTER (WHERE t.took > 0) OVER (), 0) AS last_of_all,
           coalesce(max(turn.rank) FILTER (WHERE t.took > 0) OVER (PARTITION BY turn.pipeline), 0)
             AS last_of_pipeline
    FROM turn LEFT JOIN (SELECT rank, count(*) AS took FROM picked GROUP BY rank) AS t
      ON t.rank = turn.rank) AS v
  WHERE v.wants > 0
),
-- When each queue is ready next; NULL: not before it was looked at.
moved AS MATERIALIZED (
  SELECT n.lane, n.pipeline, 0 AS took, 0 AS turn_left, n.visited_at, n.taken, n.per_second,
         CASE WHEN n.parked_until > regente.clock() THEN n.parked_until
              WHEN n.breaker_state = 'probing' OR n.places <= 0 THEN NULL
              ELSE greatest(regente.clock(), n.tokens_until - make_interval(
                secs => (n.burst - 1) / n.pace_rate)) END AS ready_at
  FROM turn n WHERE n.room = 0
  UNION ALL
  SELECT v.lane, v.pipeline, v.took, CASE WHEN v.cut_short THEN v.wants - v.took ELSE 0 END,
         v.visited_at, v.taken, v.per_second,
         CASE WHEN v.cut_short THEN v.ready_at
              WHEN v.took < v.wants THEN NULL
              WHEN v.took < v.room THEN regente.clock()
              WHEN v.breaker_state = 'open' OR v.took >= v.places THEN NULL
              ELSE greatest(v.tokens_until, regente.clock())
                   + make_interval(secs => (v.took - v.burst + 1) / v.pace_rate) END
  FROM visited v WHERE NOT v.not_reached
),
placed AS (
  UPDATE regente.lane_queues q
  SET ready_at = m.ready_at, turn_left = m.turn_left, visited_at = regente.clock(),
      taken = m.took,
      per_second = CASE WHEN m.visited_at < regente.clock() THEN
        coalesce(m.per_second, 0) + (1 - exp(-passed.seconds / 60))
          * (m.taken / passed.seconds - coalesce(m.per_second, 0))
        ELSE m.per_second END
  FROM moved m CROSS JOIN LATERAL (
    SELECT extract(epoch FROM regente.clock() - m.visited_at)::double precision AS seconds
  ) AS passed
  WHERE q.lane = m.lane AND q.pipeline = m.pipeline
),
probe AS MATERIALIZED (
  SELECT v.lane, (SELECT min(c.id) FROM claimed c WHERE c.lane = v.lane) AS id
  FROM visited v WHERE v.breaker_state = 'open' AND v.took > 0
),
spent AS (
  UPDATE regente.lanes l
  SET tokens_until = greatest(l.tokens_until, regente.clock())
                       + make_interval(secs => v.took / v.pace_rate),
      used_at = regente.clock(),
      breaker_state = CASE WHEN probe.id IS NULL THEN l.breaker_state ELSE 'probing' END,
      probe_id = coalesce(probe.id, l.probe_id)
  FROM visited v LEFT JOIN probe ON probe.lane = v.lane
  WHERE l.name = v.lane AND v.took > 0
    AND (v.rate IS NOT NULL OR probe.id IS NOT NULL
         OR v.used_at < regente.clock() - interval '1 hour')
),
told AS (
  INSERT INTO regente.events (task_id, event, details)
  SELECT id, 'lane_probing', jsonb_build_object('lane', lane) FROM probe WHERE id IS NOT NULL
)
SELECT c.id, c.pipeline, c.attempt, c.tries, c.crashes, c.max_attempts, c.batch_id, c.args::text,
       (extract(epoch FROM c.created_at) * 1000000)::bigint AS born_us, c.priority,
       extract(epoch FROM c.lane_run_at)::double precision AS run_at, c.lane,
       k.concurrency IS NOT NULL AS limited,
       k.rate IS NOT NULL OR k.breaker IS NOT NULL AS watched
FROM claimed c LEFT JOIN limited k ON k.lane = c.lane
UNION ALL
SELECT NULL, m.pipeline, 0, 0, 0, NULL, NULL, NULL, 0, 0, 0, m.lane, false, false
FROM moved m WHERE m.ready_at IS NULL
UNION ALL
SELECT NULL, NULL, count(*)::integer, 0, 0, NULL, NULL, NULL, 0, 0, 0, NULL, false, false
FROM ready

-- name: claim_lane_suspect
-- A suspect in a lane, as `claim_suspect`, within the limits of its lane.
WITH suspect AS MATERIALIZED (
  SELECT t.id, t.lane FROM regente.tasks t
  WHERE t.pipeline || '' = ANY (%(pipelines)s::text[]) AND t.status = 'queued' AND t.crashes >= 2
    AND t.run_at = regente.in_lane() AND t.lane_run_at <= regente.clock()
    AND EXISTS (SELECT FROM regente.runners r
                WHERE r.id = %(runner_id)s::bigint AND r.status = 'running'
                  AND r.lease_until > regente.clock())
    AND NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = t.pipeline AND p.paused)
    AND NOT EXISTS (SELECT FROM regente.lanes l WHERE l.name = t.lane
                    AND (l.parked_until > regente.clock() OR l.breaker_state <> 'closed'))
  ORDER BY t.run_at, t.id LIMIT 1
),
locked AS MATERIALIZED (
  SELECT suspect.id, l.*
  FROM suspect CROSS JOIN LATERAL (
    SELECT
    -- include: lane_settings
    FROM (SELECT * FROM regente.lanes n WHERE n.name = suspect.lane FOR UPDATE SKIP LOCKED) AS l
    LEFT JOIN regente.pipelines p ON p.name = l.pipeline AND l.defaults IS NULL) AS l
),
running AS MATERIALIZED (
  SELECT r.lane, r.running
  FROM regente.running_in_lanes(ARRAY(SELECT lane FROM locked
                                      WHERE concurrency IS NOT NULL)) AS r
),
allowed AS MATERIALIZED (
  SELECT k.id, k.lane, k.rate, k.pace_rate, k.breaker, k.concurrency
  FROM locked k LEFT JOIN running r ON r.lane = k.lane
  WHERE coalesce(k.concurrency > r.running, true)
    AND (k.parked_until > regente.clock()) IS NOT TRUE AND k.breaker_state = 'closed'
    AND (k.rate IS NULL OR k.tokens_until IS NULL
         OR k.burst - k.pace_rate * extract(
              epoch FROM k.tokens_until - regente.clock())::double precision >= 0.999999)
),
claimed AS (
  UPDATE regente.tasks SET status = 'running', attempt = attempt + 1,
         runner_id = %(runner_id)s::bigint,
         claimed_at = regente.clock(), started_at = coalesce(started_at, regente.clock()),
         heartbeat_at = regente.clock()
  WHERE status = 'queued' AND ctid = ANY (ARRAY(
    SELECT t.ctid FROM regente.tasks t
    WHERE t.id = (SELECT id FROM allowed) AND t.status = 'queued' FOR UPDATE SKIP LOCKED))
  RETURNING id, pipeline, attempt, tries, crashes, max_attempts, batch_id, args, created_at,
            priority, lane
),
spent AS (
  UPDATE regente.lanes l
  SET tokens_until = greatest(l.tokens_until, regente.clock())
                       + make_interval(secs => 1 / a.pace_rate)
  FROM allowed a WHERE l.name = a.lane AND a.rate IS NOT NULL
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event, details)
  SELECT id, batch_id, %(runner_id)s::bigint, attempt, 'task_claimed', '{"alone": true}'
  FROM claimed
)
SELECT c.id, c.pipeline, c.attempt, c.tries, c.crashes, c.max_attempts, c.batch_id, c.args::text,
       (extract(epoch FROM c.created_at) * 1000000)::bigint AS born_us, c.priority,
       0::double precision AS run_at, c.lane, a.concurrency IS NOT NULL AS limited,
       a.rate IS NOT NULL OR a.breaker IS NOT NULL AS watched
FROM claimed c JOIN allowed a ON a.lane = c.lane

-- name: open_lane_for_calls
-- The lane of calls, with the limits that its pipeline's code gives now.
INSERT INTO regente.lanes AS l (name, pipeline, defaults)
VALUES (%(lane)s, %(pipeline)s, %(defaults)s::jsonb)
ON CONFLICT (name) DO UPDATE SET defaults = excluded.defaults
WHERE l.pipeline = excluded.pipeline AND l.defaults IS DISTINCT FROM excluded.defaults
RETURNING l.name

-- name: enter_lane
-- A call of an attempt gets a place in its lane, as a claim gives one to a task, under the lane's
-- lock. Without room it is noted, once, that the call waits. A lane that a claim or another call
-- has locked is asked again; so is one whose answer got lost: the call has its place then.
WITH fenced AS MATERIALIZED (
  SELECT t.id, t.attempt,
         EXISTS (SELECT FROM regente.lane_calls c
                 WHERE c.task_id = t.id AND c.attempt = t.attempt
                   AND c.number = %(number)s::integer AND c.entered_at IS NOT NULL) AS has_entered
  FROM regente.tasks t
  WHERE t.id = %(task_id)s AND t.attempt = %(attempt)s
    AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint
    AND t.status IS NOT DISTINCT FROM 'running'
),
locked AS MATERIALIZED (
  SELECT l.* FROM (
    SELECT
    -- include: lane_settings
    FROM (SELECT * FROM regente.lanes n WHERE n.name = %(lane)s FOR UPDATE SKIP LOCKED) AS l
    LEFT JOIN regente.pipelines p ON p.name = l.pipeline AND l.defaults IS NULL) AS l
),
running AS MATERIALIZED (
  SELECT r.running
  FROM regente.running_in_lanes(ARRAY(SELECT lane FROM locked
                                      WHERE concurrency IS NOT NULL)) AS r
),
measured AS MATERIALIZED (
  SELECT k.*, r.running,
         extract(epoch FROM nullif(k.parked_until, 'infinity') - regente.clock())
           ::double precision AS parked_seconds,
         extract(epoch FROM k.tokens_until - regente.clock())::double precision
           - (k.burst - 1) / k.pace_rate AS token_seconds
  FROM locked k LEFT JOIN running r ON true
),
judged AS MATERIALIZED (
  SELECT m.*, f.has_entered,
         CASE WHEN f.has_entered THEN NULL
              WHEN m.parked_until > regente.clock() THEN 'parked'
              WHEN m.breaker_state = 'probing' THEN 'probing'
              WHEN m.running >= m.concurrency THEN 'full'
              WHEN m.token_seconds > 0.000001 THEN 'rate' END AS refused
  FROM measured m CROSS JOIN fenced f
),
entered AS (
  INSERT INTO regente.lane_calls AS c (task_id, attempt, number, lane, entered_at)
  SELECT f.id, f.attempt, %(number)s::integer, j.lane,
         CASE WHEN j.refused IS NULL THEN regente.clock() END
  FROM judged j CROSS JOIN fenced f
  WHERE j.refused IS NULL OR NOT %(is_noted)s::boolean
  ON CONFLICT (task_id, attempt, number) DO UPDATE SET entered_at = excluded.entered_at
  WHERE c.entered_at IS NULL
),
spent AS (
  UPDATE regente.lanes l
  SET tokens_until = greatest(l.tokens_until, regente.clock())
                       + make_interval(secs => 1 / j.pace_rate),
      used_at = regente.clock(),
      breaker_state = CASE j.breaker_state WHEN 'open' THEN 'probing' ELSE l.breaker_state END,
      probe_id = CASE j.breaker_state WHEN 'open' THEN f.id ELSE l.probe_id END
  FROM judged j CROSS JOIN fenced f
  WHERE l.name = j.lane AND j.refused IS NULL AND NOT j.has_entered
    AND (j.rate IS NOT NULL OR j.breaker_state = 'open'
         OR j.used_at < regente.clock() - interval '1 hour')
),
logged AS (
  INSERT INTO regente.events (task_id, event, details)
  SELECT f.id, 'lane_probing', jsonb_build_object('lane', j.lane)
  FROM judged j CROSS JOIN fenced f
  WHERE j.refused IS NULL AND NOT j.has_entered AND j.breaker_state = 'open'
)
SELECT EXISTS (SELECT FROM fenced) AS held,
       EXISTS (SELECT FROM regente.lanes n WHERE n.name = %(lane)s) AS known,
       j.lane IS NOT NULL AS asked, j.refused,
       CASE j.refused WHEN 'parked' THEN j.parked_seconds WHEN 'rate' THEN j.token_seconds END
         AS wait_seconds,
       j.parked_because, j.running, j.concurrency,
       j.rate IS NOT NULL OR j.breaker IS NOT NULL AS watched
FROM (SELECT true) AS always LEFT JOIN judged j ON true

-- name: leave_lanes
DELETE FROM regente.lane_calls c
USING unnest(%(task_ids)s::bigint[], %(attempts)s::integer[], %(numbers)s::integer[])
  AS left_ (task_id, attempt, number)
WHERE c.task_id = left_.task_id AND c.attempt = left_.attempt AND c.number = left_.number
RETURNING c.lane

-- name: forget_lost_calls
-- Calls of attempts that are over: a crash has left them behind, and they count no longer.
WITH lost AS MATERIALIZED (
  SELECT c.ctid FROM regente.lane_calls c
  WHERE NOT EXISTS (SELECT FROM regente.tasks t WHERE t.id = c.task_id AND t.attempt = c.attempt
                    AND t.status IS NOT DISTINCT FROM 'running')
  ORDER BY c.task_id, c.attempt, c.number LIMIT 10000 FOR UPDATE SKIP LOCKED
)
DELETE FROM regente.lane_calls c WHERE c.ctid = ANY (ARRAY(SELECT ctid FROM lost))
RETURNING c.lane

-- name: survey_lanes
-- For each pipeline with lanes that will be ready: in how many seconds the first one is. Without
-- a number: a pipeline with suspects in lanes.
SELECT wanted.pipeline,
       extract(epoch FROM first.ready_at - regente.clock())::double precision AS due_seconds
FROM unnest(%(pipelines)s::text[]) AS wanted (pipeline)
CROSS JOIN LATERAL (
  SELECT q.ready_at FROM regente.lane_queues q
  WHERE q.pipeline = wanted.pipeline AND q.ready_at < 'infinity'
  ORDER BY q.ready_at LIMIT 1) AS first
WHERE NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = wanted.pipeline AND p.paused)
UNION ALL
SELECT DISTINCT t.pipeline, NULL::double precision
FROM regente.tasks t
WHERE t.status = 'queued' AND t.crashes >= 2 AND t.run_at = regente.in_lane()
  AND t.lane_run_at <= regente.clock() AND t.pipeline || '' = ANY (%(pipelines)s::text[])
  AND NOT EXISTS (SELECT FROM regente.pipelines p WHERE p.name = t.pipeline AND p.paused)

-- name: look_at_lanes
-- Open these queues if they are new, and make all queues of these lanes ready that have a task and
-- room for it. One that was not visited since the first in the line became ready goes before that:
-- it takes no more than one turn in each round. The commit waits for no disk: what is lost in a
-- crash a sweep finds. In the order of the keys, and lanes before queues: no deadlock. With
-- OFFSET 0 each lane is one index probe, for any estimate of how many are wanted.
WITH wanted AS MATERIALIZED (
  SELECT w.lane, w.pipeline FROM unnest(%(lanes)s::text[], %(pipelines)s::text[])
    AS w (lane, pipeline) WHERE w.pipeline IS NOT NULL
  UNION
  SELECT q.lane, q.pipeline FROM unnest(%(lanes)s::text[]) AS w (lane) CROSS JOIN LATERAL (
    SELECT q.lane, q.pipeline FROM regente.lane_queues q WHERE q.lane = w.lane OFFSET 0) AS q
),
opened AS (
  INSERT INTO regente.lanes (name, pipeline)
  SELECT DISTINCT ON (w.lane) w.lane, w.pipeline FROM wanted w
  WHERE (SELECT true FROM regente.lanes l WHERE l.name = w.lane) IS NULL
  ORDER BY w.lane, w.pipeline
  ON CONFLICT (name) DO NOTHING RETURNING name
),
queue AS MATERIALIZED (
  SELECT w.lane, w.pipeline, l.concurrency, l.breaker_state, q.lane IS NULL AS is_new,
         first.due_at, q.visited_at,
         greatest(first.due_at, l.parked_until, l.tokens_until - make_interval(
           secs => (l.burst - 1) / l.pace_rate)) AS ready_at
  FROM wanted w
  LEFT JOIN LATERAL (
    SELECT q.lane, q.ready_at, q.visited_at FROM regente.lane_queues q
    WHERE q.lane = w.lane AND q.pipeline = w.pipeline OFFSET 0) AS q ON true
  LEFT JOIN LATERAL (
    SELECT
    -- include: lane_settings
    FROM regente.lanes l
    LEFT JOIN regente.pipelines p ON p.name = l.pipeline AND l.defaults IS NULL
    WHERE l.name = w.lane OFFSET 0) AS l ON true
  LEFT JOIN LATERAL (
    WITH RECURSIVE level (rank) AS (
      (SELECT regente.claim_rank(t.priority, t.attempt) FROM regente.tasks t
       WHERE t.lane = w.lane AND t.pipeline = w.pipeline AND t.status = 'queued'
       ORDER BY regente.claim_rank(t.priority, t.attempt) DESC LIMIT 1)
      UNION ALL
      SELECT (SELECT regente.claim_rank(t.priority, t.attempt) FROM regente.tasks t
              WHERE t.lane = w.lane AND t.pipeline = w.pipeline AND t.status = 'queued'
                AND regente.claim_rank(t.priority, t.attempt) < level.rank
              ORDER BY regente.claim_rank(t.priority, t.attempt) DESC LIMIT 1)
      FROM level WHERE level.rank IS NOT NULL)
    SELECT min(t.lane_run_at) AS due_at FROM level CROSS JOIN LATERAL (
      SELECT t.lane_run_at FROM regente.tasks t
      WHERE t.lane = w.lane AND t.pipeline = w.pipeline AND t.status = 'queued'
        AND regente.claim_rank(t.priority, t.attempt) = level.rank AND t.crashes < 2
      ORDER BY t.lane_run_at, t.id LIMIT 1) AS t
    WHERE level.rank IS NOT NULL) AS first ON true
  WHERE q.ready_at IS NULL OR q.ready_at > regente.clock()
),
ready AS MATERIALIZED (
  SELECT queue.lane, queue.pipeline, queue.is_new,
         CASE WHEN queue.breaker_state IS DISTINCT FROM 'probing'
                AND queue.due_at IS NOT NULL AND NOT regente.is_held(queue.due_at)
                AND coalesce(queue.concurrency > (
                  SELECT count(*) FROM regente.tasks t
                  WHERE t.status = 'running' AND t.lane = queue.lane)
                  + (SELECT count(*) FROM regente.lane_calls c
                     WHERE c.lane = queue.lane AND c.entered_at IS NOT NULL
                       AND EXISTS (SELECT FROM regente.tasks t WHERE t.id = c.task_id
                                   AND t.attempt = c.attempt
                                   AND t.status IS NOT DISTINCT FROM 'running')), true)
              THEN CASE WHEN queue.ready_at > regente.clock() THEN queue.ready_at
                        WHEN queue.visited_at > head.ready_at THEN regente.clock()
                        ELSE least(regente.clock(), head.ready_at) END END AS ready_at
  FROM queue LEFT JOIN (
    SELECT w.pipeline, (SELECT q.ready_at FROM regente.lane_queues q
                        WHERE q.pipeline = w.pipeline AND q.ready_at <= regente.clock()
                        ORDER BY q.ready_at LIMIT 1) AS ready_at
    FROM (SELECT DISTINCT pipeline FROM queue) AS w) AS head ON head.pipeline = queue.pipeline
),
armed AS (
  INSERT INTO regente.lane_queues AS q (lane, pipeline, ready_at)
  SELECT lane, pipeline, ready_at FROM ready
  WHERE (is_new OR ready_at IS NOT NULL) AND (SELECT count(*) FROM opened) >= 0
  ORDER BY lane, pipeline
  ON CONFLICT (lane, pipeline) DO UPDATE SET ready_at = excluded.ready_at
  WHERE q.ready_at IS NULL OR q.ready_at > excluded.ready_at
  RETURNING q.pipeline, q.ready_at
),
due AS MATERIALIZED (
  SELECT pipeline, greatest(0, extract(epoch FROM min(ready_at) - regente.clock()))
    ::double precision AS due_seconds
  FROM armed WHERE ready_at < 'infinity' GROUP BY pipeline
),
sent AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true),
         pg_notify('regente_lanes', concat_ws(' ', pipeline, due_seconds)) FROM due
)
SELECT pipeline, due_seconds, (SELECT count(*) FROM sent) AS sent FROM due

-- name: lanes_to_look_at
-- A page of the lanes with waiting tasks whose queue is not ready, or does not exist. From lane to
-- lane in the index, so that waiting tasks are not counted.
WITH RECURSIVE queue (number, lane, pipeline) AS (
  (SELECT 1, t.lane, t.pipeline FROM regente.tasks t
   WHERE t.status = 'queued' AND t.lane IS NOT NULL
     AND (t.lane, t.pipeline) > (%(after_lane)s::text, %(after_pipeline)s::text)
   ORDER BY t.lane, t.pipeline LIMIT 1)
  UNION ALL
  SELECT queue.number + 1, next.lane, next.pipeline FROM queue CROSS JOIN LATERAL (
    SELECT t.lane, t.pipeline FROM regente.tasks t
    WHERE t.status = 'queued' AND t.lane IS NOT NULL
      AND (t.lane, t.pipeline) > (queue.lane, queue.pipeline)
    ORDER BY t.lane, t.pipeline LIMIT 1) AS next
  WHERE queue.number < 1000
)
SELECT queue.lane, queue.pipeline,
       NOT EXISTS (SELECT FROM regente.lane_queues q
                   WHERE q.lane = queue.lane AND q.pipeline = queue.pipeline
                     AND q.ready_at <= regente.clock()) AS wanted
FROM queue ORDER BY queue.lane, queue.pipeline

-- name: end_lost_probes
-- Breakers that wait for the end of a probe which does not run any more probe again.
WITH lost AS MATERIALIZED (
  SELECT l.name FROM regente.lanes l
  WHERE l.breaker_state = 'probing'
    AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.id = l.probe_id
                    AND t.status IS NOT DISTINCT FROM 'running')
  ORDER BY l.name FOR UPDATE SKIP LOCKED
)
UPDATE regente.lanes l SET breaker_state = 'open', probe_id = NULL, parked_until = regente.clock()
FROM lost WHERE l.name = lost.name
RETURNING l.name

-- name: forget_lanes
-- Lanes without settings of their own that nothing has used for long.
WITH old AS MATERIALIZED (
  SELECT l.name FROM regente.lanes l
  WHERE l.used_at < regente.clock() - make_interval(secs => %(keep_seconds)s::double precision)
    AND num_nonnulls(l.concurrency, l.rate, l.burst, l.min_rate, l.weight, l.breaker) = 0
    AND (l.parked_until > regente.clock()) IS NOT TRUE AND l.breaker_state = 'closed'
    AND NOT EXISTS (SELECT FROM regente.lane_queues q WHERE q.lane = l.name
                    AND q.ready_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.lane = l.name AND t.status = 'queued')
    AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.lane = l.name AND t.status = 'running')
    AND NOT EXISTS (SELECT FROM regente.lane_calls c WHERE c.lane = l.name)
  ORDER BY l.name LIMIT 1000 FOR UPDATE SKIP LOCKED
),
queues AS (DELETE FROM regente.lane_queues q USING old WHERE q.lane = old.name)
DELETE FROM regente.lanes l USING old WHERE l.name = old.name RETURNING l.name

-- name: report_lanes
-- How attempts in lanes ended. Throttled parks the lane. Blocked and Throttled halve its rate, at
-- most once a second, because tasks that ran together fail together; each success raises it by a
-- twentieth. Failures in a row open the breaker; its probe closes it or opens it for longer.
WITH told AS MATERIALIZED (
  SELECT e.lane, count(*) FILTER (WHERE e.verdict = 'passed') AS passed,
         count(*) FILTER (WHERE e.verdict IN ('failed', 'blocked')) AS failed,
         bool_or(e.verdict IN ('blocked', 'throttled')) AS slow,
         max(e.seconds) FILTER (WHERE e.verdict = 'throttled') AS park_seconds,
         array_agg(e.task_id) AS ids, array_agg(e.verdict) AS verdicts
  FROM unnest(%(lanes)s::text[], %(ids)s::bigint[], %(verdicts)s::text[],
              %(seconds)s::double precision[]) AS e (lane, task_id, verdict, seconds)
  GROUP BY e.lane
),
locked AS MATERIALIZED (
  SELECT told.passed, told.failed, told.slow, told.park_seconds, l.*,
         told.verdicts[array_position(told.ids, l.probe_id)] AS probe
  FROM (SELECT * FROM told ORDER BY lane) AS told CROSS JOIN LATERAL (
    SELECT
    -- include: lane_settings
    FROM (SELECT * FROM regente.lanes n WHERE n.name = told.lane
          AND (told.failed > 0 OR told.slow OR n.failures > 0 OR n.pace < 1
               OR n.breaker_state <> 'closed')
          AND (SELECT set_config('lock_timeout', '1s', true)) IS NOT NULL
          FOR UPDATE) AS l
    LEFT JOIN regente.pipelines p ON p.name = l.pipeline AND l.defaults IS NULL) AS l
),
paced AS (
  SELECT k.*,
         CASE WHEN k.rate IS NULL THEN k.pace
              WHEN k.slow THEN CASE
                WHEN k.slowed_at > regente.clock() - interval '1 second' THEN k.pace
                ELSE greatest(least(1, k.min_rate / k.rate), k.pace / 2) END
              ELSE least(1, k.pace + k.passed * 0.05) END AS new_pace,
         CASE WHEN k.passed > 0 THEN 0 ELSE k.failures + k.failed END AS new_failures
  FROM locked k
),
judged AS (
  SELECT p.*,
         CASE WHEN p.breaker_state = 'probing' AND p.probe = 'passed' THEN 'closed'
              WHEN p.breaker_state = 'probing' AND p.probe IS NOT NULL THEN 'open'
              WHEN p.breaker_state = 'closed' AND p.new_failures >= p.breaker THEN 'open'
              ELSE p.breaker_state::text END::regente.breaker_state AS new_state,
         coalesce(p.breaker_state = 'closed' AND p.new_failures >= p.breaker, false)
           OR coalesce(p.breaker_state = 'probing'
                       AND p.probe IN ('failed', 'blocked', 'throttled'), false)
           AS opens
  FROM paced p
),
changed AS (
  UPDATE regente.lanes l
  SET pace = j.new_pace,
      slowed_at = CASE WHEN j.new_pace < j.pace THEN regente.clock() ELSE l.slowed_at END,
      failures = CASE WHEN j.new_state = 'closed' AND j.breaker_state <> 'closed' THEN 0
                      ELSE j.new_failures END,
      opened = CASE WHEN j.opens THEN l.opened + 1 WHEN j.new_state = 'closed' THEN 0
                    ELSE l.opened END,
      breaker_state = j.new_state,
      probe_id = CASE WHEN j.new_state = 'probing' THEN l.probe_id END,
      parked_because = CASE WHEN j.opens THEN 'its breaker opened'
                            WHEN j.park_seconds > 0 THEN 'throttled' ELSE l.parked_because END,
      parked_until = greatest(
        l.parked_until,
        regente.clock() + make_interval(secs => j.park_seconds),
        CASE WHEN j.opens THEN regente.clock()
          + make_interval(secs => least(900, 30 * power(2, least(l.opened, 5)))) END)
  FROM judged j WHERE l.name = j.lane
  RETURNING l.name, l.parked_until, l.parked_because, l.pace, l.breaker_state, l.failures,
            j.pace AS old_pace, j.pace_rate AS old_rate, j.rate, j.parked_until AS was_parked_until,
            j.breaker_state AS old_state, j.opens
),
logged AS (
  INSERT INTO regente.events (event, details)
  SELECT 'lane_parked', jsonb_build_object('lane', name, 'until', parked_until,
                                           'reason', parked_because)
  FROM changed
  WHERE parked_until > greatest(was_parked_until, regente.clock()) AND NOT opens
  UNION ALL
  SELECT CASE WHEN pace < old_pace THEN 'lane_slowed' ELSE 'lane_raised' END,
         jsonb_build_object('lane', name, 'from', old_rate, 'to', rate * pace)
  FROM changed WHERE pace <> old_pace
  UNION ALL
  SELECT CASE WHEN opens THEN 'lane_breaker_opened' ELSE 'lane_breaker_closed' END,
         jsonb_build_object('lane', name, 'failures', failures, 'until', parked_until)
  FROM changed WHERE opens OR (breaker_state = 'closed' AND old_state <> 'closed')
)
SELECT name FROM changed

-- name: list_lanes
SELECT l.lane AS name, l.pipeline, l.concurrency, l.rate, l.pace_rate AS rate_now,
       CASE WHEN l.rate IS NOT NULL THEN l.burst END AS burst,
       CASE WHEN l.rate IS NOT NULL THEN l.min_rate END AS min_rate, l.weight, l.breaker, l.own,
       CASE WHEN l.parked_until > regente.clock() THEN 'parked'
            WHEN c.running >= l.concurrency THEN 'full'
            WHEN c.running > 0 THEN 'running'
            WHEN c.queued + c.waiting > 0 THEN 'waiting' ELSE 'idle' END AS status,
       CASE WHEN l.parked_until > regente.clock() AND l.parked_until < 'infinity'
            THEN l.parked_until END AS parked_until,
       CASE WHEN l.parked_until > regente.clock() THEN l.parked_because END AS parked_because,
       l.breaker_state::text AS breaker_state, l.failures, c.running, c.queued, c.waiting,
       (SELECT sum(q.per_second) FROM regente.lane_queues q WHERE q.lane = l.lane) AS per_second
FROM (
  SELECT l.pipeline,
         array_remove(ARRAY[
           CASE WHEN l.concurrency IS NOT NULL THEN 'concurrency' END,
           CASE WHEN l.rate IS NOT NULL THEN 'rate' END,
           CASE WHEN l.burst IS NOT NULL THEN 'burst' END,
           CASE WHEN l.min_rate IS NOT NULL THEN 'min_rate' END,
           CASE WHEN l.weight IS NOT NULL THEN 'weight' END,
           CASE WHEN l.breaker IS NOT NULL THEN 'breaker' END], NULL) AS own,
  -- include: lane_settings
  FROM regente.lanes l
  LEFT JOIN regente.pipelines p ON p.name = l.pipeline AND l.defaults IS NULL
  WHERE (%(name)s::text IS NULL OR l.name = %(name)s)
    AND (%(search)s::text IS NULL OR strpos(l.name, %(search)s) > 0)
    AND (%(after)s::text IS NULL OR l.name > %(after)s)
    AND (%(pipeline)s::text IS NULL
         OR l.defaults IS NOT NULL AND l.pipeline = %(pipeline)s
         OR EXISTS (SELECT FROM regente.lane_queues q
                    WHERE q.lane = l.name AND q.pipeline = %(pipeline)s))
  ORDER BY l.name LIMIT %(limit)s) AS l
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE n.entered_at IS NOT NULL) AS running,
         count(*) FILTER (WHERE n.entered_at IS NULL) AS waiting
  FROM regente.lane_calls n
  WHERE n.lane = l.lane
    AND EXISTS (SELECT FROM regente.tasks t WHERE t.id = n.task_id AND t.attempt = n.attempt
                AND t.status IS NOT DISTINCT FROM 'running')) AS calls
CROSS JOIN LATERAL (
  SELECT (SELECT count(*) FROM regente.tasks t WHERE t.status = 'running' AND t.lane = l.lane)
           + calls.running AS running,
         calls.waiting,
         (SELECT count(*) FROM (SELECT FROM regente.tasks t
                                WHERE t.status = 'queued' AND t.lane = l.lane LIMIT 10001) AS w)
           AS queued) AS c
ORDER BY l.lane

-- name: set_lane
WITH changes AS MATERIALIZED (SELECT %(changes)s::jsonb AS value),
changed AS (
  INSERT INTO regente.lanes AS l (name, pipeline, concurrency, rate, burst, min_rate, weight,
                                  breaker)
  SELECT %(name)s, coalesce(%(pipeline)s::text, known.pipeline), (value ->> 'concurrency')::integer,
         (value ->> 'rate')::double precision, (value ->> 'burst')::integer,
         (value ->> 'min_rate')::double precision, (value ->> 'weight')::integer,
         (value ->> 'breaker')::integer
  FROM changes LEFT JOIN regente.lanes known ON known.name = %(name)s
  WHERE coalesce(%(pipeline)s::text, known.pipeline) IS NOT NULL
  ON CONFLICT (name) DO UPDATE SET
    concurrency = CASE WHEN (SELECT value ? 'concurrency' FROM changes)
                       THEN excluded.concurrency ELSE l.concurrency END,
    rate = CASE WHEN (SELECT value ? 'rate' FROM changes) THEN excluded.rate ELSE l.rate END,
    burst = CASE WHEN (SELECT value ? 'burst' FROM changes) THEN excluded.burst ELSE l.burst END,
    min_rate = CASE WHEN (SELECT value ? 'min_rate' FROM changes)
                    THEN excluded.min_rate ELSE l.min_rate END,
    weight = CASE WHEN (SELECT value ? 'weight' FROM changes)
                  THEN excluded.weight ELSE l.weight END,
    breaker = CASE WHEN (SELECT value ? 'breaker' FROM changes)
                   THEN excluded.breaker ELSE l.breaker END
  RETURNING l.name
),
logged AS (
  INSERT INTO regente.events (event, details)
  SELECT 'lane_set', jsonb_build_object('lane', name, 'limits', (SELECT value FROM changes))
         || %(details)s::jsonb
  FROM changed
)
SELECT name FROM changed

-- name: park_lane
WITH changed AS (
  UPDATE regente.lanes
  SET parked_until = coalesce(regente.clock()
        + make_interval(secs => %(seconds)s::double precision), 'infinity'),
      parked_because = %(reason)s
  WHERE name = %(name)s RETURNING name, parked_until
),
logged AS (
  INSERT INTO regente.events (event, details)
  SELECT 'lane_parked', jsonb_build_object('lane', name, 'until', nullif(parked_until, 'infinity'),
                                           'reason', %(reason)s::text) || %(details)s::jsonb
  FROM changed
)
SELECT name FROM changed

-- name: open_lane
-- A probe that runs goes on as any other task.
WITH changed AS (
  UPDATE regente.lanes
  SET parked_until = NULL, parked_because = NULL, breaker_state = 'closed', probe_id = NULL,
      failures = 0, opened = 0, pace = 1, slowed_at = NULL
  WHERE name = %(name)s RETURNING name
),
logged AS (
  INSERT INTO regente.events (event, details)
  SELECT 'lane_opened', jsonb_build_object('lane', name) || %(details)s::jsonb FROM changed
)
SELECT name FROM changed
