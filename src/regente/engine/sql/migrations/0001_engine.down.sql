DROP VIEW regente.locks;
DROP TABLE regente.settings, regente.schedules, regente.pipelines, regente.runners, regente.batches,
    regente.snapshots,
  regente.failures, regente.events, regente.steps, regente.tasks;
DROP FUNCTION regente.check_transition(), regente.batch_lives(bigint);
DROP TYPE regente.runner_status, regente.batch_status, regente.task_status;
DROP FUNCTION regente.clock();
