-- Executions of documents.

-- name: execution_last
-- The document that ended last.
SELECT coalesce(d.code, t.key, t.id::text) AS codigo
FROM regente.tasks t LEFT JOIN regente.documents d ON d.task_id = t.id
WHERE t.batch_id = %(batch_id)s AND t.status >= 'completed' ORDER BY t.finished_at DESC, t.id DESC
LIMIT 1

-- name: execution_stopped_at
-- The task that a stalled execution waits for: the running one with the oldest heartbeat, else the
-- one that has been due the longest.
SELECT t.id, coalesce(d.code, t.key, t.id::text) AS codigo, t.checkpoint AS etapa,
       coalesce(t.heartbeat_at, t.queued_at) AS desde
FROM regente.tasks t LEFT JOIN regente.documents d ON d.task_id = t.id
WHERE t.batch_id = %(batch_id)s AND t.status IN ('queued', 'running')
ORDER BY t.status DESC, CASE WHEN t.status = 'running' THEN t.heartbeat_at
    ELSE t.run_at END, t.id LIMIT 1

-- name: execution_errors
-- The documents that failed for good, each with its last failed attempt.
SELECT t.id, coalesce(d.code, t.key, t.id::text) AS codigo, t.tries + t.crashes AS tentativas,
       t.error_code AS erro_codigo,
       t.error_message AS erro_mensagem, coalesce(f.details ->> 'stack', f.stack) AS erro_stack,
       f.step AS etapa,
       coalesce(f.at, t.finished_at) AS ultimo_erro_em
FROM regente.tasks t LEFT JOIN regente.documents d ON d.task_id = t.id
LEFT JOIN LATERAL (
  SELECT f.stack, f.step, f.at, f.details FROM regente.failures f
  WHERE f.task_id = t.id ORDER BY f.id DESC LIMIT 1) AS f ON true
WHERE t.batch_id = %(batch_id)s AND t.status = 'failed'
  AND (%(before_id)s::bigint IS NULL OR t.id < %(before_id)s)
ORDER BY t.id DESC LIMIT %(limit)s
