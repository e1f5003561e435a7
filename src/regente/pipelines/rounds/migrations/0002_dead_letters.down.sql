DROP VIEW regente.scrape_jobs;
DROP VIEW regente.scrape_tasks;
DROP FUNCTION regente.body_text(bytea);

CREATE VIEW regente.scrape_tasks AS
SELECT rm.round_id AS job_id, rm.match_id, rm.place, rm.url, rm.task_id,
       CASE WHEN m.id IS NOT NULL THEN 'FINISHED' WHEN t.id IS NULL THEN 'MISSING'
            WHEN t.status = 'running' THEN 'RUNNING'
            WHEN t.status IN ('draft', 'queued') THEN 'PENDING'
                WHEN t.status = 'failed' THEN 'FAILED'
            WHEN t.status = 'skipped' THEN 'SKIPPED' WHEN t.status = 'canceled' THEN 'CANCELED'
            ELSE 'MISSING' END AS status,
       coalesce(t.attempt, 0) AS attempt_count, coalesce(t.tries, 0) AS tries, t.run_at,
       t.started_at,
       coalesce(m.stored_at, t.finished_at) AS finished_at,
       CASE WHEN m.id IS NULL THEN t.error_code END AS error_code, CASE
            WHEN m.id IS NULL THEN t.error_message END AS error_message,
       m.id AS stored_id
FROM regente.round_matches rm
LEFT JOIN regente.tasks t ON t.id = rm.task_id
LEFT JOIN regente.rounds r ON r.id = rm.round_id
LEFT JOIN regente.matches m ON m.league = r.league AND m.match_id = rm.match_id;

CREATE VIEW regente.scrape_jobs AS
SELECT r.id, r.league, r.number, r.task_id, r.batch_id, r.created_at, r.discovered_at,
       r.matches_said,
       c.listed, c.finished, c.pending, c.running, c.failed, c.skipped, c.canceled, c.missing,
       CASE WHEN c.running + c.pending > 0 OR t.status = 'running' THEN 'RUNNING'
            WHEN t.status IN ('draft', 'queued') THEN CASE
                WHEN r.discovered_at IS NULL THEN 'PENDING' ELSE 'RUNNING' END
            WHEN r.discovered_at IS NOT NULL AND c.finished = c.listed THEN 'FINISHED'
            WHEN r.discovered_at IS NOT NULL THEN 'INCOMPLETE'
            ELSE 'FAILED' END AS status,
       t.error_code, t.error_message
FROM regente.rounds r
LEFT JOIN regente.tasks t ON t.id = r.task_id
CROSS JOIN LATERAL (
  SELECT count(*) AS listed, count(*) FILTER (WHERE s.status = 'FINISHED') AS finished,
         count(*) FILTER (WHERE s.status = 'PENDING') AS pending,
         count(*) FILTER (WHERE s.status = 'RUNNING') AS running,
         count(*) FILTER (WHERE s.status = 'FAILED') AS failed,
         count(*) FILTER (WHERE s.status = 'SKIPPED') AS skipped,
         count(*) FILTER (WHERE s.status = 'CANCELED') AS canceled,
         count(*) FILTER (WHERE s.status = 'MISSING') AS missing
  FROM regente.scrape_tasks s WHERE s.job_id = r.id) AS c;
