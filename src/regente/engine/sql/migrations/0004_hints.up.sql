-- Store one task without key and batch and tell runners of it, in one round trip and two
-- transactions. A NOTIFY holds a lock of the whole server until its commit is on disk: in the
-- task's own transaction it would let one commit at a time. The second transaction writes nothing,
-- so its commit waits for no disk. A crash in between loses the hint; runners poll.
CREATE PROCEDURE regente.store_task(
  wanted_pipeline text, wanted_args jsonb, wanted_priority smallint, wanted_run_at timestamptz,
  wanted_max_attempts smallint, OUT task_id bigint
) LANGUAGE plpgsql AS $$
DECLARE
  first double precision;
BEGIN
  WITH inserted AS (
    INSERT INTO regente.tasks (pipeline, args, priority, run_at, max_attempts, queued_at)
    VALUES (wanted_pipeline, wanted_args, wanted_priority,
            coalesce(wanted_run_at, regente.clock()), wanted_max_attempts, regente.clock())
    RETURNING id, run_at
  ),
  logged AS (
    INSERT INTO regente.events (task_id, event) SELECT id, 'task_queued' FROM inserted
  )
  SELECT id, extract(epoch FROM run_at) INTO task_id, first FROM inserted;
  COMMIT;
  PERFORM set_config('synchronous_commit', 'off', true),
          pg_notify('regente_queued', concat_ws(' ', wanted_pipeline, wanted_priority,
            greatest(0, first - extract(epoch FROM regente.clock())), first));
END $$;
