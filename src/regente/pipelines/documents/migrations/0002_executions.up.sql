-- The tables of the original specification, by their names.
CREATE VIEW regente.execucoes_classificacao AS
SELECT b.id, b.name AS nome, e.project AS projeto,
       CASE b.status WHEN 'pending' THEN 'PENDENTE' WHEN 'running' THEN 'EM_ANDAMENTO'
                     WHEN 'stalled' THEN 'TRAVADO' WHEN 'completed' THEN 'CONCLUIDO'
                     WHEN 'failed' THEN 'ERRO' ELSE 'CANCELADO' END AS status,
       b.total,
       greatest(b.progress_at, c.moved_at) AS ultimo_heartbeat,
       last.code::varchar(400) AS ultimo_codigo_processado,
       b.resumes::integer AS tentativas_retry, b.max_resumes::integer AS max_retries,
       c.pendentes, c.processando, c.concluidos, c.erros, c.pulados, c.cancelados,
       b.details ->> 'route' AS rota_origem,
       (b.stall ->> 'at')::timestamptz AS travado_em, b.stall ->> 'reason' AS travado_motivo,
       stuck.code AS travado_codigo, b.stall ->> 'step' AS travado_etapa,
       b.stall ->> 'error_code' AS travado_erro_codigo,
       b.stall ->> 'error_message' AS travado_erro_mensagem,
       e.created_by AS criado_por, b.created_at AS criado_em, b.finished_at AS concluido_em
FROM regente.document_executions e JOIN regente.batches b ON b.id = e.id
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE t.status IN ('draft', 'queued')) AS pendentes,
         count(*) FILTER (WHERE t.status = 'running') AS processando,
         count(*) FILTER (WHERE t.status = 'completed') AS concluidos,
         count(*) FILTER (WHERE t.status = 'failed') AS erros,
         count(*) FILTER (WHERE t.status = 'skipped') AS pulados,
         count(*) FILTER (WHERE t.status = 'canceled') AS cancelados,
         max(t.heartbeat_at) AS moved_at
  FROM regente.tasks t WHERE t.batch_id = b.id) AS c
LEFT JOIN LATERAL (
  SELECT d.code FROM regente.tasks t JOIN regente.documents d ON d.task_id = t.id
  WHERE t.batch_id = b.id AND t.status >= 'completed'
  ORDER BY t.finished_at DESC, t.id DESC LIMIT 1) AS last ON true
LEFT JOIN regente.documents stuck ON stuck.task_id = (b.stall ->> 'task_id')::bigint;

CREATE VIEW regente.resultados_classificacao AS SELECT * FROM regente.document_results;
