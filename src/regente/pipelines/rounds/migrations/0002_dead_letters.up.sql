-- A body as text; bytes that are no UTF-8 are escaped.
CREATE FUNCTION regente.body_text(body bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN convert_from(body, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
  RETURN encode(body, 'escape');
END $$;

-- As before, and of a match that failed for good the error as JSON and the page as it came.
CREATE OR REPLACE VIEW regente.scrape_tasks AS
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
       m.id AS stored_id,
       CASE WHEN m.id IS NULL AND t.status = 'failed' THEN (
         SELECT jsonb_build_object('class', f.class, 'code', f.code, 'message', f.message,
                                   'step', f.step, 'details', f.details, 'attempt', f.attempt,
                                   'at', f.at)
         FROM regente.failures f WHERE f.task_id = t.id ORDER BY f.id DESC LIMIT 1) END AS error,
       CASE WHEN m.id IS NULL AND t.status = 'failed' THEN (
         SELECT regente.body_text(s.body)
         FROM regente.failures f JOIN regente.snapshots s ON s.failure_id = f.id
         WHERE f.task_id = t.id AND s.name = 'page.html' ORDER BY f.id DESC LIMIT 1) END AS html
FROM regente.round_matches rm
LEFT JOIN regente.tasks t ON t.id = rm.task_id
LEFT JOIN regente.rounds r ON r.id = rm.round_id
LEFT JOIN regente.matches m ON m.league = r.league AND m.match_id = rm.match_id;
