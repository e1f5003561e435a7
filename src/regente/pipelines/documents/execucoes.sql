-- Executions with the words of the specification: of documents, and of batches of other pipelines.

-- name: execution_last
-- The document that ended last.
SELECT coalesce(d.code, t.key, t.id::text) AS codigo
FROM regente.tasks t LEFT JOIN regente.documents d ON d.task_id = t.id
WHERE t.batch_id = %(batch_id)s AND t.status >= 'completed' ORDER BY t.finished_at DESC, t.id DESC
LIMIT 1

-- name: document_code
SELECT code AS codigo FROM regente.documents WHERE task_id = %(task_id)s

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
