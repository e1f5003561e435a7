-- The specification's words for quotes, each defined once: the status, the data for a resumption,
-- the processing time, and its table `quote_requests`, which is a view.

-- A quote between two attempts is being processed: its work is done in part, and it goes on by
-- itself.
CREATE FUNCTION regente.quote_status(status regente.task_status, attempt integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE status WHEN 'draft' THEN 'PENDING'
                     WHEN 'queued' THEN CASE WHEN attempt > 0 THEN 'PROCESSING' ELSE 'PENDING' END
                     WHEN 'running' THEN 'PROCESSING'
                     WHEN 'completed' THEN 'DONE'
                     WHEN 'failed' THEN 'ERROR'
                     ELSE 'CANCELLED' END
$$;

-- What the next attempt does not do, or pay for, again.
CREATE FUNCTION regente.quote_resume_data(quote_id bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT coalesce(jsonb_object_agg(kept.name, kept.value), '{}')
  FROM (SELECT n.name, s.output::jsonb AS value
        FROM (VALUES ('AI_ANALYSIS_DONE', 'claude_payload_json'),
                     ('SHOPPING_SEARCH_DONE', 'google_shopping_response_json'),
                     ('FIPE_SEARCH', 'fipe_response_json')) AS n (step, name)
        JOIN regente.steps s ON s.task_id = quote_id AND s.name = n.step AND s.item = -1
        UNION ALL
        SELECT 'tested_products', jsonb_agg(s.output::jsonb ORDER BY s.item)
        FROM regente.steps s
        WHERE s.task_id = quote_id AND s.name = 'PRICE_EXTRACTION_PROGRESS' AND s.item >= 0
        HAVING count(*) > 0) AS kept
$$;

-- How long its attempts ran. What it waited between them, for a retry, a rate limit or a decision,
-- is no processing.
CREATE FUNCTION regente.quote_processing_seconds(quote_id bigint) RETURNS double precision
LANGUAGE sql STABLE AS $$
  SELECT sum(extract(epoch FROM ended.at - begun.at))::double precision
  FROM regente.events begun CROSS JOIN LATERAL (
    SELECT min(e.at) AS at FROM regente.events e
    WHERE e.task_id = quote_id AND e.attempt = begun.attempt AND e.at >= begun.at
      AND e.event LIKE 'task\_%' AND e.event NOT IN ('task_claimed', 'task_cancel_requested')
  ) AS ended
  WHERE begun.task_id = quote_id AND begun.event = 'task_claimed'
$$;

-- Of the specification's two indexes the first contains no heartbeat: with it, every heartbeat
-- would have to update each index of the task. It has only the quotes that are being processed.
CREATE INDEX ix_quote_requests_heartbeat_status ON regente.tasks (id)
    WHERE pipeline = 'quotes' AND regente.quote_status(status, attempt) = 'PROCESSING';
CREATE INDEX ix_quote_requests_worker_id ON regente.runners (name);

-- A quote whose task was deleted by retention shows its result. While it waits between two
-- attempts it has no heartbeat, because nothing works on it.
CREATE VIEW regente.quote_requests AS
SELECT t.id, t.batch_id, coalesce(q.description, t.args ->> 'description') AS description,
       q.reference,
       regente.quote_status(t.status, t.attempt) AS status,
       t.checkpoint AS processing_checkpoint,
       CASE WHEN t.status <> 'queued' THEN t.heartbeat_at END AS last_heartbeat,
       r.name AS worker_id,
       regente.quote_resume_data(t.id) AS resume_data,
       regente.quote_resume_data(t.id) -> 'claude_payload_json' AS claude_payload_json,
       regente.quote_resume_data(t.id) -> 'google_shopping_response_json'
           AS google_shopping_response_json,
       t.attempt AS attempt_number, t.created_at, t.started_at,
       coalesce(t.finished_at, q.completed_at) AS completed_at,
       t.error_code, t.error_message, q.value, q.currency
FROM regente.tasks t LEFT JOIN regente.quotes q ON q.id = t.id
LEFT JOIN regente.runners r ON r.id = t.runner_id AND t.status = 'running'
WHERE t.pipeline = 'quotes'
UNION ALL
SELECT q.id, q.batch_id, q.description, q.reference, 'DONE', 'COMPLETED', NULL, NULL, '{}', NULL,
       NULL, NULL, q.created_at, NULL, q.completed_at, NULL, NULL, q.value, q.currency
FROM regente.quotes q
WHERE q.completed_at IS NOT NULL AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.id = q.id)
UNION ALL
SELECT q.id, q.batch_id, q.description, q.reference, 'CANCELLED', NULL, NULL, NULL, '{}', NULL,
       NULL, NULL, q.created_at, NULL, NULL, NULL, NULL, NULL, q.currency
FROM regente.quotes q
WHERE q.completed_at IS NULL AND NOT EXISTS (SELECT FROM regente.tasks t WHERE t.id = q.id);
