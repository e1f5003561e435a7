DROP TRIGGER mission_runs_open_the_orchestrator ON regente.mission_runs;
DROP VIEW regente.mission_logs;
DROP VIEW regente.missions;
DROP FUNCTION regente.open_orchestrator();
DROP FUNCTION regente.refuse_log_change();
DROP FUNCTION regente.insert_mission_log();
DROP FUNCTION regente.refuse_mission_delete();
DROP FUNCTION regente.update_mission();
DROP FUNCTION regente.queue_again(bigint, text);
DROP FUNCTION regente.queue_draft(bigint, timestamptz, text);
DROP FUNCTION regente.cancel_mission(bigint, text);
DROP FUNCTION regente.insert_mission();
DROP FUNCTION regente.check_mission(date, date, text, text[]);
DROP FUNCTION regente.sql_author();
ALTER TABLE regente.writers ALTER COLUMN id
    SET DEFAULT 'wr_' || substr(md5(gen_random_uuid()::text), 1, 12);
ALTER TABLE regente.proxies ALTER COLUMN id
    SET DEFAULT 'px_' || substr(md5(gen_random_uuid()::text), 1, 12);
ALTER TABLE regente.workers ALTER COLUMN id
    SET DEFAULT 'wk_' || substr(md5(gen_random_uuid()::text), 1, 12);
DROP FUNCTION regente.generate_mission_log_id();
DROP FUNCTION regente.generate_writer_id();
DROP FUNCTION regente.generate_proxy_id();
DROP FUNCTION regente.generate_worker_id();
DROP FUNCTION regente.generate_mission_id();
DROP FUNCTION regente.mission_event_of(text);
DROP TYPE regente.mission_event;
DROP TYPE regente.mission_status;

-- The original specification's tables, readable under its names. A mission that waits for another
-- attempt is still `running`.
CREATE VIEW regente.missions AS
SELECT t.id,
       (t.args ->> 'date_start')::date AS date_start, (t.args ->> 'date_end')::date AS date_end,
       (t.args ->> 'media_type')::varchar(10) AS media_type,
       ARRAY(SELECT jsonb_array_elements_text(t.args -> 'languages')) AS languages,
       CASE WHEN t.status = 'queued' AND r.checkpoint IN ('extracao', 'armazenamento')
           THEN 'running' ELSE t.status::text
       END AS status,
       CASE t.status WHEN 'completed' THEN 'finalizado'
            ELSE r.checkpoint END AS checkpoint, r.worker_id, r.worker_job_id, r.worker_data_url,
            r.proxy_used, r.writer_job_id, r.ads_count,
       CASE WHEN t.error_code ~ '^ERROR[0-9]{3}$' THEN t.error_code
            WHEN t.status = 'failed' THEN 'ERROR500'
       END::varchar(20) AS error_code,
       t.error_message,
       r.retry_count, t.created_at, t.queued_at, t.started_at, t.finished_at
FROM regente.tasks t JOIN regente.mission_runs r ON r.mission_id = t.id
WHERE t.pipeline = 'missions';

CREATE VIEW regente.mission_logs AS
SELECT e.txid::text || '-' || e.id AS id, e.task_id AS mission_id,
       CASE e.event WHEN 'task_queued' THEN 'mission_queued'
            WHEN 'task_requeued' THEN 'mission_queued'
                    WHEN 'task_canceled' THEN 'mission_canceled'
                        WHEN 'task_failed' THEN 'mission_failed'
                    WHEN 'task_completed' THEN 'mission_completed' ELSE e.event END AS event,
       CASE e.event
         WHEN 'task_queued' THEN jsonb_build_object('queued_by',
                                                    coalesce(e.details ->> 'by', 'user'))
         WHEN 'task_requeued' THEN jsonb_build_object('queued_by',
                                                      coalesce(e.details ->> 'by', 'user'))
         WHEN 'task_canceled' THEN jsonb_build_object(
           'canceled_by', coalesce(e.details ->> 'by', (
             SELECT c.details ->> 'by' FROM regente.events c
             WHERE c.task_id = e.task_id AND c.event = 'task_cancel_requested' AND c.id < e.id
             ORDER BY c.id DESC LIMIT 1), 'user'),
           'previous_checkpoint', coalesce((
             SELECT CASE c.event WHEN 'mission_assigned' THEN 'extracao'
                 WHEN 'scrape_completed' THEN 'armazenamento'
                                 WHEN 'task_requeued' THEN CASE
                                     WHEN r.worker_data_url IS NULL THEN 'atribuido'
                                     ELSE 'armazenamento' END
                                 ELSE 'atribuido' END
             FROM regente.events c
             WHERE c.task_id = e.task_id AND c.id < e.id
               AND c.event IN ('task_queued', 'task_requeued', 'mission_assigned',
                               'mission_returned', 'scrape_completed')
             ORDER BY c.id DESC LIMIT 1), CASE WHEN r.checkpoint <> 'finalizado'
                 THEN r.checkpoint::text END))
         WHEN 'task_failed' THEN jsonb_build_object(
           'error_code', CASE WHEN e.details ->> 'code' ~ '^ERROR[0-9]{3}$'
               THEN e.details ->> 'code' ELSE 'ERROR500' END,
           'error_message', coalesce(e.details ->> 'message', e.details ->> 'code',
                                     e.details ->> 'reason'),
           'retry_count', (
             SELECT count(*) FROM regente.events c
             WHERE c.task_id = e.task_id AND c.event = 'retry_triggered' AND c.id < e.id
               AND c.id > coalesce((
               SELECT max(q.id) FROM regente.events q WHERE q.task_id = e.task_id
                   AND q.event = 'task_requeued' AND q.id < e.id), 0)))
         WHEN 'task_completed' THEN t.result
         ELSE e.details END AS details,
       e.at AS timestamp
FROM regente.mission_runs r JOIN regente.tasks t ON t.id = r.mission_id
JOIN regente.events e ON e.task_id = r.mission_id
WHERE e.event IN ('task_queued', 'task_requeued', 'task_canceled', 'task_failed', 'task_completed')
   OR e.event ~ '^(mission|session|scrape|writer|retry|proxy)_'
UNION ALL
SELECT e.txid::text || '-' || e.id || '-' || ms.mission_id, ms.mission_id, e.event, e.details, e.at
FROM regente.mission_sessions ms JOIN regente.sessions s ON s.id = ms.session_id
JOIN regente.events e ON e.task_id = s.driver_id
WHERE e.event ~ '^session_' AND (e.details ->> 'session_id')::bigint = s.id
  AND e.at <= coalesce(ms.left_at, 'infinity')
UNION ALL
SELECT e.txid::text || '-' || e.id, NULL, e.event, e.details, e.at
FROM (SELECT driver_id FROM regente.sessions UNION SELECT driver_id FROM regente.workers) AS d
JOIN regente.events e ON e.task_id = d.driver_id
WHERE e.event ~ '^(session|proxy)_';
