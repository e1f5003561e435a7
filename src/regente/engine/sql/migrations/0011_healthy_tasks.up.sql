-- The running tasks of a batch that may still make progress by their pipeline's `stall_after`, in a
-- runner that lives.
CREATE FUNCTION regente.healthy_tasks(batch bigint) RETURNS TABLE (id bigint)
LANGUAGE sql STABLE AS $$
  SELECT t.id FROM regente.tasks t
  JOIN regente.pipelines p ON p.name = t.pipeline
  JOIN regente.runners r ON r.id = t.runner_id
  WHERE t.batch_id = batch AND t.status = 'running'
    AND t.heartbeat_at > regente.clock() - p.stall_after
    AND r.status < 'stopped' AND r.heartbeat_at > regente.clock() - r.lease
$$;
