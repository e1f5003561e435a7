-- When each sweep of the watchdog was last begun: of all processes that could, one takes its turn.
CREATE TABLE regente.sweeps (
  name     text PRIMARY KEY,
  begun_at timestamptz NOT NULL
) WITH (fillfactor = 10);

-- Cancels are found by the primary key of the tasks that a runner works on.
DROP INDEX regente.tasks_to_cancel;

-- Whether a living runner has served the batch's open tasks for so long. It lives by its own
-- word, not by an amnesty. The pipelines are those of some of the tasks: as a rule a batch has one.
CREATE FUNCTION regente.batch_is_served(batch bigint, during interval) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM (SELECT DISTINCT pipeline FROM (
                   SELECT t.pipeline FROM regente.tasks t
                   WHERE t.batch_id = batch AND t.status IN ('queued', 'running') LIMIT 1000
                 ) AS sample) AS wanted
    JOIN regente.runners r ON wanted.pipeline = ANY (r.pipelines)
    WHERE r.status = 'running' AND r.heartbeat_at > regente.clock() - r.lease
      AND r.started_at <= regente.clock() - during)
$$;
