-- The audit log: events by mission, type, worker and time, newest first.

-- name: list_events
SELECT e.id, e.txid::text AS txid, e.txid::text || '-' || e.id AS position, e.at, e.event,
       e.task_id, e.batch_id, e.runner_id, e.attempt, e.details
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
       OR e.details ->> 'session_id' = ANY (%(sessions)s::text[]))
  AND (%(worker_id)s::text IS NULL OR e.details ->> 'worker_id' = %(worker_id)s)
ORDER BY e.txid DESC, e.id DESC LIMIT %(limit)s
