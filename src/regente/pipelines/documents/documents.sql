-- Queries of documents. States, attempts and errors are in the engine's tables, and joined
-- in `document_results`.

-- name: document
SELECT d.task_id, d.execution_id, d.code, d.size_bytes, d.asked, e.source, e.folder, e.classes,
       e.instructions, e.model
FROM regente.documents d JOIN regente.document_executions e ON e.id = d.execution_id
WHERE d.task_id = %(task_id)s

-- name: content
SELECT body FROM regente.document_contents WHERE task_id = %(task_id)s

-- name: keep_reason
UPDATE regente.documents SET skip_code = %(code)s, skip_reason = %(reason)s
WHERE task_id = %(task_id)s

-- name: keep_answer
UPDATE regente.documents SET asked = asked + 1, last_answer = %(answer)s WHERE task_id = %(task_id)s

-- name: store_result
WITH done AS (DELETE FROM regente.document_contents WHERE task_id = %(task_id)s)
UPDATE regente.documents
SET kind = %(kind)s, sha256 = %(sha256)s, pages = %(pages)s, characters = %(characters)s,
    category = %(category)s,
    confidence = %(confidence)s, rationale = %(rationale)s, model = %(model)s, skip_code = NULL,
    skip_reason = NULL
WHERE task_id = %(task_id)s

-- name: put_project
INSERT INTO regente.document_projects (name, classes, instructions, model, max_retries_execucao,
                                       max_retries_documento)
VALUES (%(name)s, %(classes)s::jsonb, %(instructions)s, %(model)s, %(max_retries_execucao)s,
        %(max_retries_documento)s)
ON CONFLICT (name) DO UPDATE
SET classes = excluded.classes, instructions = excluded.instructions, model = excluded.model,
    max_retries_execucao = excluded.max_retries_execucao,
    max_retries_documento = excluded.max_retries_documento,
    updated_at = regente.clock()

-- name: projects
SELECT name, classes, instructions, model, max_retries_execucao, max_retries_documento
FROM regente.document_projects
WHERE %(name)s::text IS NULL OR name = %(name)s ORDER BY name

-- name: add_execution
-- Returns no row if the name is taken.
INSERT INTO regente.document_executions (id, project, classes, instructions, model, source, folder,
                                         created_by)
VALUES (%(id)s, %(project)s, %(classes)s::jsonb, %(instructions)s, %(model)s, %(source)s,
        %(folder)s, %(by)s)
ON CONFLICT (id) DO NOTHING RETURNING id

-- name: add_document
INSERT INTO regente.documents (task_id, execution_id, code, size_bytes)
VALUES (%(task_id)s, %(execution_id)s, %(code)s, %(size_bytes)s)

-- name: add_content
INSERT INTO regente.document_contents (task_id, body) VALUES (%(task_id)s, %(body)s)

-- name: executions
SELECT b.id, b.name AS nome, e.project AS projeto, b.status::text AS status, e.source AS origem,
       e.folder AS pasta, b.total,
       c.pendente AS "PENDENTE", c.processando AS "PROCESSANDO", c.concluido AS "CONCLUIDO",
       c.erro AS "ERRO",
       c.pulado AS "PULADO", c.cancelado AS "CANCELADO", b.resumes AS tentativas_retry,
       b.max_resumes AS max_retries,
       CASE WHEN c.ended > 0 AND c.ended < b.total AND b.status = 'running'
                AND regente.batch_is_served(b.id, '0')
            THEN extract(epoch FROM regente.clock() - b.created_at)::double precision
                 / c.ended * (b.total - c.ended)
       END AS eta_segundos,
       e.created_by AS criado_por, b.created_at AS criado_em,
       greatest(b.progress_at, c.moved_at) AS ultimo_heartbeat,
       b.finished_at AS concluido_em
FROM (SELECT e.* FROM regente.document_executions e
      WHERE (%(id)s::bigint IS NULL OR e.id = %(id)s)
        AND (%(before_id)s::bigint IS NULL OR e.id < %(before_id)s)
      ORDER BY e.id DESC LIMIT %(limit)s) AS e
JOIN regente.batches b ON b.id = e.id
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE t.status IN ('draft', 'queued')) AS pendente,
         count(*) FILTER (WHERE t.status = 'running') AS processando,
         count(*) FILTER (WHERE t.status = 'completed') AS concluido,
         count(*) FILTER (WHERE t.status = 'failed') AS erro,
         count(*) FILTER (WHERE t.status = 'skipped') AS pulado,
         count(*) FILTER (WHERE t.status = 'canceled') AS cancelado,
         count(*) FILTER (WHERE t.status >= 'completed') AS ended,
         max(t.heartbeat_at) AS moved_at
  FROM regente.tasks t WHERE t.batch_id = b.id) AS c
ORDER BY e.id DESC

-- name: named_execution
SELECT e.id FROM regente.document_executions e JOIN regente.batches b ON b.id = e.id
WHERE b.name = %(name)s

-- name: results
SELECT * FROM regente.document_results r
WHERE r.execucao_id = %(execution_id)s AND (%(before_id)s::bigint IS NULL OR r.id < %(before_id)s)
  AND (%(statuses)s::text[] IS NULL OR r.status = ANY (%(statuses)s::text[]))
  AND (%(codigo)s::text IS NULL OR r.codigo = %(codigo)s)
ORDER BY r.id DESC LIMIT %(limit)s
