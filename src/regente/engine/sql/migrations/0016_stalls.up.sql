-- Why and where a batch stalled last. It stays when the batch goes on or is given up.
ALTER TABLE regente.batches ADD COLUMN stall jsonb;

-- The task that the batch waits for, with its last failure: the running one with the oldest
-- heartbeat, else, of those that have been due the longest, one that ran before. Without statistics
-- the planner would sort all tasks of the batch.
CREATE FUNCTION regente.stall_of(batch bigint) RETURNS jsonb
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
  SELECT jsonb_build_object(
      'at', regente.clock(),
      'reason', CASE WHEN regente.batch_is_served(batch, '0') THEN 'no_progress'
                     ELSE 'no_runner' END,
      'pipeline', t.pipeline, 'task_id', t.id, 'key', t.key, 'status', t.status,
      'attempt', t.attempt, 'step', t.checkpoint, 'since', coalesce(t.heartbeat_at, t.queued_at),
      'runner', r.name, 'runner_alive', r.status < 'stopped' AND r.lease_until > regente.clock(),
      'error_code', f.code, 'error_message', f.message, 'error_at', f.at)
  FROM (SELECT) AS one
  LEFT JOIN LATERAL (
    SELECT found.* FROM (
      (SELECT * FROM regente.tasks r WHERE r.batch_id = batch AND r.status = 'running')
      UNION ALL
      (SELECT * FROM regente.tasks q WHERE q.batch_id = batch AND q.status = 'queued'
       ORDER BY q.run_at LIMIT 20)) AS found
    ORDER BY found.status DESC, CASE WHEN found.status = 'running' THEN found.heartbeat_at END,
             found.started_at IS NULL, found.run_at, found.id
    LIMIT 1) AS t ON true
  LEFT JOIN regente.runners r ON r.id = t.runner_id
  LEFT JOIN LATERAL (
    SELECT f.code, f.message, f.at FROM regente.failures f WHERE f.task_id = t.id
    ORDER BY f.id DESC LIMIT 1) AS f ON true
$$;
