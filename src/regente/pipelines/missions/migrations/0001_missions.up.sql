-- Missions and the fleet: workers that scrape, proxies that they go out through, writers that
-- store.
--
-- A mission is a task of the pipeline `missions` and a row in `mission_runs` with what only
-- missions have. It waits, held back, until a worker with a ready session is given to it; from then
-- on the mission's task drives the scrape on that worker, and the worker's own task (pipeline
-- `workers`) only its sessions. `workers.current_mission_id` says which of the two may speak.

CREATE TYPE regente.checkpoint_type AS ENUM (
  'atribuido',      -- in the queue
  'extracao',       -- a worker scrapes
  'armazenamento',  -- a writer stores
  'finalizado'      -- done
);

CREATE TYPE regente.worker_status AS ENUM (
  'idle',          -- no session             → initializing
  'initializing',  -- a session is starting  → ready, error, idle
  'ready',         -- waits for a mission    → scraping, error, idle
  'scraping',      -- works on a mission     → ready, error, idle
  'error'          -- its session failed     → idle
);

CREATE TABLE regente.workers (
  id                 text PRIMARY KEY DEFAULT 'wk_' || substr(md5(gen_random_uuid()::text), 1, 12),
  name               varchar(100) NOT NULL UNIQUE,
  url                varchar(500) NOT NULL,
  api_key            text NOT NULL,  -- encrypted
  storage_domain     varchar(255),
  status             regente.worker_status NOT NULL DEFAULT 'idle',
  session_count      integer NOT NULL DEFAULT 0 CHECK (session_count >= 0),
  current_mission_id bigint REFERENCES regente.tasks ON DELETE SET NULL,
  active             boolean NOT NULL DEFAULT true,
  last_test_at       timestamptz,
  last_test_ok       boolean,
  last_test_message  text,
  session_id         bigint,
  driver_id          bigint,        -- the task that drives its sessions
  failures           integer NOT NULL DEFAULT 0,  -- sessions in a row that did not start
  rest_until         timestamptz,
  -- it asked to be left alone (429), or its last session failed
  error_code         varchar(20),
  error_message      text,
  created_at         timestamptz NOT NULL DEFAULT regente.clock(),
  updated_at         timestamptz NOT NULL DEFAULT regente.clock(),
  CONSTRAINT scraping_has_a_mission CHECK (status <> 'scraping' OR current_mission_id IS NOT NULL)
);
CREATE UNIQUE INDEX workers_one_per_mission ON regente.workers (current_mission_id)
    WHERE current_mission_id IS NOT NULL;

CREATE FUNCTION regente.refuse_worker_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'worker % cannot go from % to %', OLD.name, OLD.status,
  NEW.status USING ERRCODE = 'RG001';
END $$;

CREATE TRIGGER workers_obey_the_state_machine BEFORE UPDATE OF status ON regente.workers
    FOR EACH ROW
WHEN (NOT CASE OLD.status
  WHEN 'idle'         THEN NEW.status IN ('idle', 'initializing')
  WHEN 'initializing' THEN NEW.status IN ('initializing', 'ready', 'error', 'idle')
  WHEN 'ready'        THEN NEW.status IN ('ready', 'scraping', 'error', 'idle')
  WHEN 'scraping'     THEN NEW.status IN ('scraping', 'ready', 'error', 'idle')
  WHEN 'error'        THEN NEW.status IN ('error', 'idle')
END) EXECUTE FUNCTION regente.refuse_worker_transition();

CREATE TABLE regente.proxies (
  id                  text PRIMARY KEY DEFAULT 'px_' || substr(md5(gen_random_uuid()::text), 1, 12),
  name                text NOT NULL UNIQUE,
  host                varchar(200) NOT NULL,
  port                integer CHECK (port BETWEEN 1 AND 65535),
  username            varchar(100),
  password            text,  -- encrypted
  active              boolean NOT NULL DEFAULT true,
  in_use_by_worker_id text REFERENCES regente.workers ON DELETE SET NULL,
  fail_count          integer NOT NULL DEFAULT 0 CHECK (fail_count >= 0),
  last_used_at        timestamptz,
  last_failed_at      timestamptz,
  last_failure        text,
  last_test_at        timestamptz,
  last_test_ok        boolean,
  last_test_message   text,
  created_at          timestamptz NOT NULL DEFAULT regente.clock()
);
CREATE UNIQUE INDEX proxies_one_per_worker ON regente.proxies (in_use_by_worker_id)
    WHERE in_use_by_worker_id IS NOT NULL;

CREATE TABLE regente.writers (
  id                text PRIMARY KEY DEFAULT 'wr_' || substr(md5(gen_random_uuid()::text), 1, 12),
  name              varchar(100) NOT NULL UNIQUE,
  url               varchar(500) NOT NULL,
  api_key           text NOT NULL,  -- encrypted
  active            boolean NOT NULL DEFAULT true,
  last_test_at      timestamptz,
  last_test_ok      boolean,
  last_test_message text,
  created_at        timestamptz NOT NULL DEFAULT regente.clock(),
  updated_at        timestamptz NOT NULL DEFAULT regente.clock()
);

-- One row per session that a worker was asked to open.
CREATE TABLE regente.sessions (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  worker_id  text NOT NULL REFERENCES regente.workers ON DELETE CASCADE,
  proxy_id   text REFERENCES regente.proxies ON DELETE SET NULL,
  proxy_name text,
  driver_id  bigint NOT NULL,  -- the task under which its events are filed
  missions   integer NOT NULL DEFAULT 0,
  started_at timestamptz NOT NULL DEFAULT regente.clock(),
  ready_at   timestamptz,
  ended_at   timestamptz,
  reason     text
);
CREATE INDEX sessions_of_worker ON regente.sessions (worker_id, id);

-- What a mission knows beside its task.
CREATE TABLE regente.mission_runs (
  mission_id        bigint PRIMARY KEY REFERENCES regente.tasks ON DELETE CASCADE,
  day               text NOT NULL,
  -- its first one, for lists of a worker's or a proxy's missions by day
  checkpoint        regente.checkpoint_type,
  worker_id         text REFERENCES regente.workers ON DELETE SET NULL,
  session_id        bigint,
  proxy_used        varchar(200),
  avoid_proxy_id    text,             -- the one that the last attempt went through
  not_before        timestamptz,      -- rate-limited until then
  scrape_no         integer NOT NULL DEFAULT 0,
  scrape_sent_at    timestamptz,      -- the intent, before the call
  worker_job_id     varchar(100),
  scrape_started_at timestamptz,
  worker_data_url   text,
  ads_count         integer,
  writer_id         text REFERENCES regente.writers ON DELETE SET NULL,
  writer_no         integer NOT NULL DEFAULT 0,
  writer_sent_at    timestamptz,
  writer_job_id     varchar(100),
  writer_started_at timestamptz,
  retry_count       integer NOT NULL DEFAULT 0,
  writer_failures   integer NOT NULL DEFAULT 0,
  returns           integer NOT NULL DEFAULT 0,
  -- how often it went back to the queue without a fault of its own
  success_count     integer,
  failed_count      integer
);
CREATE INDEX mission_runs_of_worker ON regente.mission_runs (worker_id);

-- The sessions that a mission ran on, with the time at which it left each.
CREATE TABLE regente.mission_sessions (
  mission_id bigint NOT NULL REFERENCES regente.tasks ON DELETE CASCADE,
  session_id bigint NOT NULL REFERENCES regente.sessions ON DELETE CASCADE,
  left_at    timestamptz,
  PRIMARY KEY (mission_id, session_id)
);

-- The rows that a writer could not store.
CREATE TABLE regente.mission_failed_items (
  mission_id bigint NOT NULL REFERENCES regente.tasks ON DELETE CASCADE,
  index      bigint NOT NULL,
  data       jsonb,
  error      text NOT NULL,
  PRIMARY KEY (mission_id, index)
);

-- The queue of missions: held tasks, oldest first.
CREATE INDEX missions_waiting ON regente.tasks (queued_at, id) WHERE pipeline = 'missions'
    AND status = 'queued';
CREATE INDEX missions_running ON regente.tasks (id) WHERE pipeline = 'missions'
    AND status = 'running';

-- One row: whether the orchestrator is open.
CREATE TABLE regente.orchestrator (
  only_one   boolean PRIMARY KEY DEFAULT true CHECK (only_one),
  state      text NOT NULL DEFAULT 'closed'
      CHECK (state IN ('closed', 'open', 'draining', 'halting')),
  stopped_by text,                       -- who told it to stop: then queued missions do not open it
  task_id    bigint,                     -- the task that conducts
  opened_at  timestamptz,
  closed_at  timestamptz
);
INSERT INTO regente.orchestrator DEFAULT VALUES;

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
