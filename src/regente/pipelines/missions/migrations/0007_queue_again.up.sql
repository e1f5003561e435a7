-- A mission that is queued again in SQL avoids no proxy and no writer, as elsewhere.

-- As `MissionOperations.retry`: with all retries; a finished extraction is not repeated.
CREATE OR REPLACE FUNCTION regente.queue_again(wanted bigint, author text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('regente.queued_in_sql', 'on', true);
  UPDATE regente.mission_runs r
  SET retry_count = 0, writer_failures = 0, returns = 0, not_before = NULL, avoid_proxy_id = NULL,
      avoid_since = NULL, avoid_writer_id = NULL,
      writer_id = NULL, writer_sent_at = NULL, writer_job_id = NULL,
      checkpoint = CASE WHEN r.checkpoint = 'armazenamento' THEN r.checkpoint
                        ELSE 'atribuido' END,
      worker_id = CASE WHEN r.checkpoint = 'armazenamento' THEN r.worker_id END,
      worker_job_id = CASE WHEN r.checkpoint = 'armazenamento' THEN r.worker_job_id END,
      scrape_sent_at = NULL
  WHERE r.mission_id = wanted;
  PERFORM set_config('regente.queued_in_sql', '', true);
  WITH requeued AS (
    UPDATE regente.tasks
    SET status = 'queued', tries = 0, crashes = 0, run_at = regente.clock(),
        queued_at = regente.clock(), finished_at = NULL, error_code = NULL, error_message = NULL,
        cancel_requested_at = NULL
    WHERE id = wanted RETURNING id, attempt
  )
  INSERT INTO regente.events (task_id, attempt, event, details)
  SELECT id, attempt, 'task_requeued', jsonb_build_object('by', author) FROM requeued;
  PERFORM pg_notify('regente_queued', 'missions');
END $$;
