-- Bulk actions and their selections.

-- name: begin_action
INSERT INTO regente.actions (kind, by, reason, request_id, filter, changes, ids, total, owner,
                             lease_until)
VALUES (%(kind)s, %(by)s, %(reason)s, %(request_id)s, %(filter)s::jsonb, %(changes)s::jsonb,
        %(ids)s::bigint[], cardinality(%(ids)s::bigint[]), %(owner)s,
        regente.clock() + make_interval(secs => %(lease_seconds)s::double precision))
RETURNING id

-- name: advance_action
-- No row: another process took it over.
UPDATE regente.actions
SET done = least(total, done + %(dealt_with)s), changed = changed + %(changed)s,
    lease_until = regente.clock() + make_interval(secs => %(lease_seconds)s::double precision),
    status = CASE WHEN done + %(dealt_with)s >= total THEN 'completed' ELSE status END,
    finished_at = CASE WHEN done + %(dealt_with)s >= total THEN regente.clock() END
WHERE id = %(id)s AND owner = %(owner)s AND status = 'running'
RETURNING id, done, total, status::text AS status

-- name: fail_action
UPDATE regente.actions SET status = 'failed', error = %(error)s, finished_at = regente.clock()
WHERE id = %(id)s AND owner = %(owner)s AND status = 'running'

-- name: release_actions
-- Another process can continue it at once.
UPDATE regente.actions SET lease_until = regente.clock()
WHERE owner = %(owner)s AND status = 'running'

-- name: adopt_actions
-- Of the kinds that this process knows: another may serve more built-ins.
UPDATE regente.actions a
SET owner = %(owner)s, lease_until = regente.clock()
    + make_interval(secs => %(lease_seconds)s::double precision)
FROM (SELECT id FROM regente.actions WHERE status = 'running' AND lease_until <= regente.clock()
        AND kind = ANY (%(kinds)s::text[])
      ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED) AS left_behind
WHERE a.id = left_behind.id
RETURNING a.id

-- name: action_work
SELECT kind, by, reason, changes, done, total, ids[done + 1 : done + %(count)s] AS ids
FROM regente.actions
WHERE id = %(id)s AND owner = %(owner)s AND status = 'running'

-- name: show_action
SELECT id, kind, by, reason, filter, changes, total, done, changed, status::text AS status, error,
       created_at, finished_at
FROM regente.actions WHERE id = %(id)s

-- name: list_actions
SELECT id, kind, by, reason, filter, changes, total, done, changed, status::text AS status, error,
       created_at, finished_at
FROM regente.actions WHERE %(before_id)s::bigint IS NULL OR id < %(before_id)s ORDER BY id DESC
LIMIT %(limit)s

-- name: states_of
SELECT status::text AS status, count(*) AS count FROM regente.tasks
WHERE id = ANY (%(ids)s::bigint[]) AND (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
GROUP BY status

-- name: tasks_of_pipelines
SELECT id, pipeline FROM regente.tasks
WHERE id = ANY (%(ids)s::bigint[]) AND pipeline = ANY (%(pipelines)s::text[])

-- name: select_tasks
SELECT t.id FROM regente.tasks t
WHERE (%(pipeline)s::text IS NULL OR t.pipeline = %(pipeline)s)
  AND (%(statuses)s::regente.task_status[] IS NULL
       OR t.status = ANY (%(statuses)s::regente.task_status[]))
  AND (%(batch_id)s::bigint IS NULL OR t.batch_id = %(batch_id)s)
  AND (%(code)s::text IS NULL OR t.error_code = %(code)s)
ORDER BY t.id LIMIT %(limit)s

-- name: select_failures
SELECT t.id FROM regente.tasks t
-- include: last_failure
WHERE t.status = 'failed'
-- include: failures_where
ORDER BY t.id LIMIT %(limit)s
