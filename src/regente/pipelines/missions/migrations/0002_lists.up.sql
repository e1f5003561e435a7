-- What lists of missions and the audit ask for. Statistics tell the planner whether a filter leaves
-- so much that walking down the ids finds a page at once, or so little that an index is faster.
-- IF NOT EXISTS: databases from before components had migrations of their own have all of it.

CREATE STATISTICS IF NOT EXISTS regente.missions_days ON (args ->> 'date_start') FROM regente.tasks;
CREATE STATISTICS IF NOT EXISTS regente.missions_media ON (args ->> 'media_type')
    FROM regente.tasks;
CREATE STATISTICS IF NOT EXISTS regente.missions_languages ON (args -> 'languages')
    FROM regente.tasks;
CREATE INDEX IF NOT EXISTS missions_by_status ON regente.tasks (status, id)
    WHERE pipeline = 'missions';
CREATE INDEX IF NOT EXISTS missions_by_day ON regente.tasks ((args ->> 'date_start'), id)
    WHERE pipeline = 'missions';
CREATE INDEX IF NOT EXISTS missions_by_media ON regente.tasks ((args ->> 'media_type'), id)
    WHERE pipeline = 'missions';
CREATE INDEX IF NOT EXISTS missions_by_language ON regente.tasks USING gin ((args -> 'languages'))
    WHERE pipeline = 'missions';
CREATE INDEX IF NOT EXISTS missions_by_error ON regente.tasks (error_code, id)
    WHERE pipeline = 'missions' AND error_code IS NOT NULL;
CREATE INDEX IF NOT EXISTS missions_begun ON regente.tasks (id)
    WHERE pipeline = 'missions' AND status = 'queued' AND attempt > 0;
CREATE INDEX IF NOT EXISTS mission_runs_by_worker ON regente.mission_runs (worker_id, mission_id)
    WHERE worker_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS mission_runs_by_worker_and_day
    ON regente.mission_runs (worker_id, day, mission_id) WHERE worker_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS mission_runs_by_proxy ON regente.mission_runs (proxy_used, mission_id)
    WHERE proxy_used IS NOT NULL;
CREATE INDEX IF NOT EXISTS mission_runs_by_proxy_and_day
    ON regente.mission_runs (proxy_used, day, mission_id) WHERE proxy_used IS NOT NULL;
CREATE INDEX IF NOT EXISTS mission_runs_by_checkpoint
    ON regente.mission_runs (checkpoint, mission_id) WHERE checkpoint IS NOT NULL;
