-- Runners: one row, one lease and one heartbeat for a whole process.

-- name: no_runner_could_renew
-- Runners whose lease is over or soon will be, while no runner has renewed for half a lease: the
-- database was away for all of them. They get another 30 s (a shorter lease gets its length), in
-- which a runner that lives renews, at most twice without a renewal. The second time begins when
-- the first is over.
SELECT r.id FROM regente.runners r
WHERE r.status < 'stopped' AND r.amnesties < 2
  AND r.lease_until < regente.clock() + CASE WHEN r.amnesties = 0 THEN r.lease / 2
                                             ELSE interval '0' END
  AND (SELECT max(a.heartbeat_at) FROM regente.runners a WHERE a.status < 'stopped')
      < regente.clock() - r.lease / 2
ORDER BY r.id FOR UPDATE OF r SKIP LOCKED

-- name: register_runner
-- The first runner after an outage speaks for the others, before its own heartbeat hides the gap.
WITH silent AS MATERIALIZED (
  -- include: no_runner_could_renew
),
spared AS (
  UPDATE regente.runners r SET amnesties = r.amnesties + 1,
         lease_until = greatest(r.lease_until,
                                regente.clock() + least(r.lease, interval '30 seconds'))
  FROM silent WHERE r.id = silent.id RETURNING r.id
),
registered AS (
  INSERT INTO regente.runners (name, host, pid, version, versions, pipelines, concurrency,
                               connections, lease, lease_until)
  VALUES (%(name)s, %(host)s, %(pid)s, %(version)s, %(versions)s::jsonb, %(pipelines)s::text[],
          %(concurrency)s,
          %(connections)s,
          make_interval(secs => %(ttl_seconds)s::double precision),
          regente.clock() + make_interval(secs => %(ttl_seconds)s::double precision))
  RETURNING id
),
logged AS (
  INSERT INTO regente.events (runner_id, event, details)
  SELECT id, 'runner_started', jsonb_build_object('name', %(name)s::text, 'pipelines',
                                                  %(pipelines)s::text[]) FROM registered
  UNION ALL SELECT id, 'runner_spared', NULL FROM spared
)
SELECT id FROM registered

-- name: installation
-- Made anew if it was removed. The update of a row that is there makes it a result.
INSERT INTO regente.installation AS i DEFAULT VALUES
ON CONFLICT (one) DO UPDATE SET id = i.id
RETURNING id, coalesce((extract(epoch FROM nullif(since, '-infinity')) * 1000000)::bigint, -1)

-- name: register_pipelines
INSERT INTO regente.pipelines (name, stall_after, expire_after, max_attempts, endless, kept,
                               args_schema, tells_lanes,
                               lane_concurrency, lane_rate, lane_burst, lane_min_rate, lane_weight,
                               lane_breaker)
SELECT name, make_interval(secs => stall_after), make_interval(secs => expire_after), max_attempts,
       endless, kept, args_schema::jsonb, tells_lanes, concurrency, rate, burst, min_rate, weight,
       breaker
FROM unnest(%(names)s::text[], %(stall_afters)s::double precision[],
            %(expire_afters)s::double precision[],
            %(max_attempts)s::smallint[], %(endless)s::boolean[], %(kept)s::boolean[],
            %(args_schemas)s::text[], %(tell_lanes)s::boolean[],
            %(lane_concurrencies)s::integer[], %(lane_rates)s::double precision[],
            %(lane_bursts)s::integer[], %(lane_min_rates)s::double precision[],
            %(lane_weights)s::integer[], %(lane_breakers)s::integer[])
                AS p (name, stall_after, expire_after, max_attempts, endless, kept, args_schema,
                      tells_lanes, concurrency, rate, burst, min_rate, weight, breaker)
ORDER BY name
ON CONFLICT (name) DO UPDATE SET stall_after = excluded.stall_after,
    expire_after = excluded.expire_after, max_attempts = excluded.max_attempts,
  endless = excluded.endless, kept = excluded.kept, seen_at = regente.clock(),
  args_schema = excluded.args_schema, tells_lanes = excluded.tells_lanes,
  lane_concurrency = excluded.lane_concurrency, lane_rate = excluded.lane_rate,
  lane_burst = excluded.lane_burst, lane_min_rate = excluded.lane_min_rate,
  lane_weight = excluded.lane_weight, lane_breaker = excluded.lane_breaker

-- name: renew_lease
-- No row: another runner declared this one lost. It must stop at once. With the timeout a lock of
-- another session on the runner's row is noticed, and named in the log. After an outage the first
-- renewal speaks for the other runners.
WITH silent AS MATERIALIZED (
  SELECT other.id FROM (
    -- include: no_runner_could_renew
  ) AS other
  WHERE (SELECT me.heartbeat_at < regente.clock() - me.lease / 2
         FROM regente.runners me WHERE me.id = %(runner_id)s)
),
spared AS (
  UPDATE regente.runners r SET amnesties = r.amnesties + 1,
         lease_until = greatest(r.lease_until,
                                regente.clock() + least(r.lease, interval '30 seconds'))
  FROM silent WHERE r.id = silent.id AND r.id <> %(runner_id)s RETURNING r.id
),
logged AS (
  INSERT INTO regente.events (runner_id, event) SELECT id, 'runner_spared' FROM spared
),
renewed AS (
  UPDATE regente.runners
  SET lease = make_interval(secs => %(ttl_seconds)s::double precision), amnesties = 0,
      lease_until = regente.clock() + make_interval(secs => %(ttl_seconds)s::double precision),
      heartbeat_at = regente.clock(),
      claimed = %(claimed)s, completed = %(completed)s, failed = %(failed)s, retried = %(retried)s,
      recovered = %(recovered)s, handed_back = %(handed_back)s, busy_seconds = %(busy_seconds)s
  WHERE id = %(runner_id)s AND status < 'stopped'
    AND (SELECT set_config('lock_timeout', '500ms', true)) IS NOT NULL
  RETURNING id
)
SELECT id FROM renewed

-- name: runner_lock_holders
SELECT format('%%s (pid %%s, %%s, %%s since %%s)', a.application_name, a.pid, a.usename, a.state,
              a.state_change::timestamptz(0))
FROM regente.runners r
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.granted AND l.transactionid = r.xmax
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE r.id = %(runner_id)s

-- name: set_runner_status
WITH changed AS (
  UPDATE regente.runners
  SET status = %(status)s::regente.runner_status,
      stopped_at = CASE WHEN %(status)s::regente.runner_status = 'stopped' THEN regente.clock() END
  WHERE id = %(runner_id)s AND status < 'stopped' AND status <> %(status)s::regente.runner_status
    AND (SELECT set_config('lock_timeout', '500ms', true)) IS NOT NULL
  RETURNING id
)
INSERT INTO regente.events (runner_id, event, details)
SELECT id, 'runner_' || %(status)s::text, %(details)s::jsonb FROM changed
RETURNING runner_id

-- name: hand_back
-- Hand back the tasks of a runner except those it works on: all when it stops or has lost its
-- lease, or those of a claim with a lost answer. They keep their place; no try and no crash is
-- charged. What another session has locked or just changed is left to the reaper.
WITH handed AS (
  UPDATE regente.tasks t
  SET runner_id = NULL,
      status = CASE WHEN t.cancel_requested_at IS NOT NULL THEN 'canceled'
          ELSE 'queued' END::regente.task_status,
      finished_at = CASE WHEN t.cancel_requested_at IS NOT NULL THEN regente.clock() END,
      cancel_requested_at = NULL
  WHERE t.runner_id = %(runner_id)s AND t.status = 'running' AND t.ctid = ANY (ARRAY(
    SELECT h.ctid FROM regente.tasks h
    WHERE h.runner_id = %(runner_id)s AND h.status = 'running'
      AND h.id <> ALL (%(except)s::bigint[])
    ORDER BY h.id FOR UPDATE SKIP LOCKED))
  RETURNING t.id, t.pipeline, t.batch_id, t.attempt, t.status
),
logged AS (
  INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event)
  SELECT id, batch_id, %(runner_id)s, attempt, CASE status WHEN 'queued' THEN 'task_handed_back'
      ELSE 'task_canceled' END
  FROM handed
),
woken AS (SELECT pg_notify('regente_queued', pipeline)
          FROM (SELECT DISTINCT pipeline FROM handed WHERE status = 'queued') AS p)
SELECT id, (SELECT count(*) FROM woken) FROM handed

-- name: to_be_stopped
-- Which of a runner's attempts must stop: those whose task was asked to be canceled, and those
-- whose task it no longer holds, because another session has put it back or ended it. One probe of
-- the primary key for each.
SELECT a.id, a.attempt, t.id IS NULL AS lost
FROM unnest(%(ids)s::bigint[], %(attempts)s::integer[]) AS a (id, attempt)
LEFT JOIN regente.tasks t ON t.id = a.id AND t.attempt = a.attempt
  AND t.runner_id IS NOT DISTINCT FROM %(runner_id)s::bigint
  AND t.status IS NOT DISTINCT FROM 'running'
WHERE t.id IS NULL OR t.cancel_requested_at IS NOT NULL

-- name: list_runners
SELECT r.id, r.name, r.host, r.pid, r.version, r.versions, r.status::text AS status, r.pipelines,
       r.concurrency,
       r.started_at,
       r.heartbeat_at, r.lease_until, r.stopped_at, r.claimed, r.completed, r.failed, r.retried,
       r.recovered, r.handed_back,
       r.busy_seconds,
       r.busy_seconds / nullif(r.completed + r.failed + r.retried, 0) AS average_seconds,
       r.status < 'stopped' AND r.lease_until > regente.clock() AS alive,
       (SELECT count(*) FROM regente.tasks t WHERE t.runner_id = r.id AND t.status = 'running')
           AS running,
       (SELECT count(*) FROM regente.tasks t JOIN regente.pipelines p ON p.name = t.pipeline
        WHERE t.runner_id = r.id AND t.status = 'running'
          AND t.heartbeat_at < regente.clock() - p.stall_after) AS stuck
FROM regente.runners r
WHERE (%(id)s::bigint IS NULL OR r.id = %(id)s) AND (%(everyone)s OR r.status < 'stopped')
ORDER BY r.started_at DESC, r.id
LIMIT %(limit)s
