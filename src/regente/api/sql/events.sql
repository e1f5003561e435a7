-- The audit log: events by mission, type, worker and time, newest first.

-- name: list_events
SELECT e.txid::text || '-' || e.id AS position, e.at, e.event, e.task_id, e.batch_id, e.runner_id,
       e.attempt, e.details
FROM regente.events e
WHERE (%(before_txid)s::xid8 IS NULL OR (e.txid, e.id) < (%(before_txid)s::xid8,
                                                          %(before_id)s::bigint))
  AND (%(types)s::text[] IS NULL OR e.event = ANY (%(types)s::text[]))
  AND (%(only_operators)s = false OR e.event = 'operator_action')
  AND (%(since)s::timestamptz IS NULL OR e.at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR e.at < %(until)s)
  AND (%(task_id)s::bigint IS NULL OR e.task_id = %(task_id)s)
  AND (%(batch_id)s::bigint IS NULL OR e.batch_id = %(batch_id)s)
  AND (%(among)s::bigint[] IS NULL OR e.task_id = ANY (%(among)s::bigint[]))
  AND (%(mission_id)s::bigint IS NULL OR e.task_id = %(mission_id)s
       OR e.details ->> 'session_id' IN (
         SELECT m.session_id::text FROM regente.mission_sessions m
         WHERE m.mission_id = %(mission_id)s))
  AND (%(worker_id)s::text IS NULL OR e.details ->> 'worker_id' = %(worker_id)s)
ORDER BY e.txid DESC, e.id DESC LIMIT %(limit)s

-- name: tasks_of_mission
-- The mission's task and the drivers of its sessions.
SELECT %(mission_id)s::bigint AS id
UNION SELECT s.driver_id FROM regente.mission_sessions m
    JOIN regente.sessions s ON s.id = m.session_id
WHERE m.mission_id = %(mission_id)s

-- name: tasks_of_worker
-- The worker's drivers and its missions.
WITH recent AS (SELECT id, driver_id FROM regente.sessions WHERE worker_id = %(worker_id)s
                ORDER BY id DESC LIMIT 2000)
SELECT driver_id AS id FROM recent
UNION SELECT m.mission_id FROM recent JOIN regente.mission_sessions m ON m.session_id = recent.id
