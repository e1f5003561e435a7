-- The original specification's SQL, for those who have it: its types, functions and tables, to be
-- read and written under their names. What is written here goes through the same checks as the API,
-- and leaves the same events with the SQL user as the author.
--
-- Regente alone dispatches: who writes SQL adds, queues and cancels missions, and never moves one
-- from worker to writer.

CREATE TYPE regente.mission_status AS ENUM (
  'draft',      -- in the bank; the specification has no name for it
  'queued', 'running', 'completed', 'failed', 'canceled'
);

CREATE TYPE regente.mission_event AS ENUM (
  'mission_queued', 'mission_assigned', 'mission_canceled',
  'session_started', 'session_ready', 'session_failed', 'session_terminated',
  'scrape_started', 'scrape_progress', 'scrape_completed', 'scrape_failed', 'scrape_empty',
  'writer_started', 'writer_progress', 'writer_completed', 'writer_failed',
  'mission_completed', 'mission_failed',
  'retry_triggered', 'proxy_rotated',
  -- more than the specification's twenty:
  'mission_returned', 'proxy_deactivated', 'proxy_breaker_opened', 'proxy_breaker_closed',
  'writer_rests', 'writer_recovered', 'writer_deactivated'
);

-- The event of the log for one of the engine's or the missions' events; NULL for one that is not
-- part of it.
CREATE FUNCTION regente.mission_event_of(event text) RETURNS regente.mission_event
LANGUAGE sql STABLE PARALLEL SAFE RETURN CASE
  WHEN event IN ('task_queued', 'task_requeued') THEN 'mission_queued'::regente.mission_event
  WHEN event = 'task_canceled' THEN 'mission_canceled'::regente.mission_event
  WHEN event = 'task_failed' THEN 'mission_failed'::regente.mission_event
  WHEN event = 'task_completed' THEN 'mission_completed'::regente.mission_event
  WHEN event ~ '^(mission|session|scrape|writer|retry|proxy)_'
       AND event = ANY (enum_range(NULL::regente.mission_event)::text[])
  THEN event::regente.mission_event
END;

CREATE FUNCTION regente.generate_mission_id() RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT nextval(pg_get_serial_sequence('regente.tasks', 'id')) $$;
CREATE FUNCTION regente.generate_worker_id() RETURNS text LANGUAGE sql
AS $$ SELECT 'wk_' || substr(md5(gen_random_uuid()::text), 1, 12) $$;
CREATE FUNCTION regente.generate_proxy_id() RETURNS text LANGUAGE sql
AS $$ SELECT 'px_' || substr(md5(gen_random_uuid()::text), 1, 12) $$;
CREATE FUNCTION regente.generate_writer_id() RETURNS text LANGUAGE sql
AS $$ SELECT 'wr_' || substr(md5(gen_random_uuid()::text), 1, 12) $$;
-- Of fixed width, so that ids sort as the events do that they were given to.
CREATE FUNCTION regente.generate_mission_log_id() RETURNS text LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'ml_' || lpad(nextval(pg_get_serial_sequence('regente.events', 'id'))::text, 19, '0')
$$;
ALTER TABLE regente.workers ALTER COLUMN id SET DEFAULT regente.generate_worker_id();
ALTER TABLE regente.proxies ALTER COLUMN id SET DEFAULT regente.generate_proxy_id();
ALTER TABLE regente.writers ALTER COLUMN id SET DEFAULT regente.generate_writer_id();

-- The views. A mission that waits for another attempt is still `running`.

DROP VIEW regente.mission_logs;
DROP VIEW regente.missions;

CREATE VIEW regente.missions AS
SELECT t.id,
       (t.args ->> 'date_start')::date AS date_start, (t.args ->> 'date_end')::date AS date_end,
       (t.args ->> 'media_type')::varchar(10) AS media_type,
       ARRAY(SELECT jsonb_array_elements_text(t.args -> 'languages')) AS languages,
       CASE
         WHEN t.status = 'queued' AND r.checkpoint IN ('extracao', 'armazenamento') THEN 'running'
         WHEN t.status = 'skipped' THEN 'canceled'
         ELSE t.status::text
       END::regente.mission_status AS status,
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
ALTER VIEW regente.missions ALTER COLUMN id SET DEFAULT regente.generate_mission_id();
ALTER VIEW regente.missions ALTER COLUMN status SET DEFAULT 'queued';
ALTER VIEW regente.missions ALTER COLUMN retry_count SET DEFAULT 0;
ALTER VIEW regente.missions ALTER COLUMN created_at SET DEFAULT regente.clock();

-- Ids and times rise together, in the order of what happened.
CREATE VIEW regente.mission_logs AS
SELECT 'ml_' || lpad(e.id::text, 19, '0') AS id, e.task_id AS mission_id,
       CASE e.event WHEN 'mission_log_added' THEN (e.details ->> 'event')::regente.mission_event
            ELSE regente.mission_event_of(e.event) END AS event,
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
           'previous_checkpoint', (
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
             ORDER BY c.id DESC LIMIT 1))
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
         WHEN 'mission_log_added' THEN e.details -> 'details'
         ELSE e.details END AS details,
       CASE e.event WHEN 'mission_log_added'
            THEN coalesce((e.details ->> 'timestamp')::timestamptz, e.at) ELSE e.at END AS timestamp
FROM regente.mission_runs r JOIN regente.tasks t ON t.id = r.mission_id
JOIN regente.events e ON e.task_id = r.mission_id
WHERE e.event = 'mission_log_added' OR regente.mission_event_of(e.event) IS NOT NULL
UNION ALL
SELECT 'ml_' || lpad(e.id::text, 19, '0') || '-' || ms.mission_id, ms.mission_id,
       regente.mission_event_of(e.event), e.details, e.at
FROM regente.mission_sessions ms JOIN regente.sessions s ON s.id = ms.session_id
JOIN regente.events e ON e.task_id = s.driver_id
WHERE e.event ~ '^session_' AND (e.details ->> 'session_id')::bigint = s.id
  AND e.at <= coalesce(ms.left_at, 'infinity')
UNION ALL
SELECT 'ml_' || lpad(e.id::text, 19, '0'), NULL, regente.mission_event_of(e.event), e.details, e.at
FROM (SELECT driver_id FROM regente.sessions UNION SELECT driver_id FROM regente.workers) AS d
JOIN regente.events e ON e.task_id = d.driver_id
WHERE e.event ~ '^(session|proxy)_';

-- Who writes: the role of the session. Regente itself names the person; that is believed from the
-- role that owns these functions.
CREATE FUNCTION regente.sql_author() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN current_setting('role') <> 'none' THEN current_setting('role')
    WHEN pg_has_role(session_user, current_user, 'MEMBER')
    THEN coalesce(nullif(current_setting('regente.by', true), ''), session_user)
    ELSE session_user
  END
$$;

-- The checks of `MissionArgs`.
CREATE FUNCTION regente.check_mission(
  first date, last date, media text, languages text[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  wrong text;
BEGIN
  wrong := CASE WHEN first IS NULL THEN 'date_start' WHEN last IS NULL THEN 'date_end'
                WHEN media IS NULL THEN 'media_type' WHEN languages IS NULL THEN 'languages' END;
  IF wrong IS NOT NULL THEN
    RAISE not_null_violation USING MESSAGE = format('a mission needs a %s', wrong), COLUMN = wrong;
  END IF;
  IF first NOT BETWEEN '0001-01-01' AND '9999-12-31'
     OR last NOT BETWEEN '0001-01-01' AND '9999-12-31' THEN
    RAISE check_violation USING MESSAGE = 'the days of a mission are in the years 1 to 9999';
  END IF;
  IF last < first THEN
    RAISE check_violation
    USING MESSAGE = format('the range ends (%s) before it starts (%s)', last, first);
  END IF;
  IF media NOT IN ('all', 'video', 'image') THEN
    RAISE check_violation
    USING MESSAGE = format('media_type is all, video or image, not %L', media);
  END IF;
  IF cardinality(languages) = 0 THEN
    RAISE check_violation USING MESSAGE = 'a mission needs at least one language';
  END IF;
  SELECT coalesce(l, 'NULL') INTO wrong FROM unnest(languages) AS l
  WHERE coalesce(l, '') !~ '^[a-z]{2,3}(-[A-Za-z0-9]{2,8})?$' LIMIT 1;
  IF FOUND THEN
    RAISE check_violation
    USING MESSAGE = format('%L is not a language code like pt or pt-BR', wrong);
  END IF;
END $$;

CREATE FUNCTION regente.insert_mission() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  author text := regente.sql_author();
  is_draft boolean := NEW.status = 'draft';
BEGIN
  PERFORM regente.check_mission(NEW.date_start, NEW.date_end, NEW.media_type, NEW.languages);
  IF coalesce(NEW.status, 'queued') NOT IN ('draft', 'queued') THEN
    RAISE EXCEPTION 'a mission begins as draft or queued, not as %', NEW.status
    USING ERRCODE = 'RG001', HINT = 'Leave status out for queued, or INSERT it as draft.';
  END IF;
  IF num_nonnulls(NEW.worker_id, NEW.worker_job_id, NEW.worker_data_url, NEW.proxy_used,
                  NEW.writer_job_id, NEW.ads_count, NEW.error_code, NEW.error_message,
                  NEW.started_at, NEW.finished_at) > 0
     OR NEW.retry_count <> 0 OR NEW.checkpoint <> 'atribuido'
     OR (is_draft AND NEW.checkpoint IS NOT NULL) THEN
    RAISE EXCEPTION 'a new mission has days, a media_type, languages and a status; what becomes of '
      'it is recorded by Regente' USING ERRCODE = '428C9',
      HINT = 'INSERT INTO missions (date_start, date_end, media_type, languages) VALUES …';
  END IF;
  IF NEW.id NOT BETWEEN 1 AND (SELECT last_value FROM regente.tasks_id_seq) THEN
    RAISE EXCEPTION '% is not an id that was given out', NEW.id USING ERRCODE = '428C9',
      HINT = 'Leave the id out, or take it from generate_mission_id().';
  END IF;
  -- Held until a driver assigns it: `HELD` in engine/holding.py.
  INSERT INTO regente.tasks (id, pipeline, args, status, run_at, created_at, queued_at)
  VALUES (NEW.id, 'missions', jsonb_build_object(
            'date_start', NEW.date_start::text, 'date_end', NEW.date_end::text,
            'media_type', NEW.media_type, 'languages', (
              SELECT jsonb_agg(l.language ORDER BY l.place) FROM (
                SELECT language, min(place) AS place
                FROM unnest(NEW.languages) WITH ORDINALITY AS u (language, place)
                GROUP BY language) AS l)),
          CASE WHEN is_draft THEN 'draft' ELSE 'queued' END::regente.task_status,
          '9000-01-01 00:00:00+00', coalesce(NEW.created_at, regente.clock()),
          CASE WHEN NOT is_draft
               THEN least(coalesce(NEW.queued_at, regente.clock()), regente.clock()) END);
  PERFORM set_config('regente.queued_in_sql', CASE WHEN is_draft THEN '' ELSE 'on' END, true);
  INSERT INTO regente.mission_runs (mission_id, day, checkpoint)
  VALUES (NEW.id, NEW.date_start::text,
          CASE WHEN NOT is_draft THEN 'atribuido' END::regente.checkpoint_type);
  PERFORM set_config('regente.queued_in_sql', '', true);
  INSERT INTO regente.events (task_id, event, details)
  VALUES (NEW.id, 'task_drafted', jsonb_build_object('by', author));
  IF NOT is_draft THEN
    INSERT INTO regente.events (task_id, event, details)
    VALUES (NEW.id, 'task_queued', jsonb_build_object('by', author));
  END IF;
  SELECT m.* INTO NEW FROM regente.missions m WHERE m.id = NEW.id;
  RETURN NEW;
END $$;

CREATE FUNCTION regente.queue_draft(wanted bigint, since timestamptz, author text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE regente.tasks
  SET status = 'queued', queued_at = least(coalesce(since, regente.clock()), regente.clock())
  WHERE id = wanted;
  PERFORM set_config('regente.queued_in_sql', 'on', true);
  UPDATE regente.mission_runs SET checkpoint = 'atribuido' WHERE mission_id = wanted;
  PERFORM set_config('regente.queued_in_sql', '', true);
  INSERT INTO regente.events (task_id, event, details)
  VALUES (wanted, 'task_queued', jsonb_build_object('by', author));
END $$;

-- As `MissionOperations.retry`: with all retries; a finished extraction is not repeated.
CREATE FUNCTION regente.queue_again(wanted bigint, author text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('regente.queued_in_sql', 'on', true);
  UPDATE regente.mission_runs r
  SET retry_count = 0, writer_failures = 0, returns = 0, not_before = NULL, avoid_proxy_id = NULL,
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

-- A waiting mission is canceled at once; a running one by its runner, when its worker has stopped.
CREATE FUNCTION regente.cancel_mission(wanted bigint, author text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  WITH target AS MATERIALIZED (
    SELECT id, status, runner_id, attempt, cancel_requested_at FROM regente.tasks WHERE id = wanted
  ),
  ended AS (
    UPDATE regente.tasks t SET status = 'canceled', finished_at = regente.clock()
    FROM target WHERE t.id = target.id AND target.status IN ('draft', 'queued') RETURNING t.id
  ),
  asked AS (
    UPDATE regente.tasks t SET cancel_requested_at = regente.clock()
    FROM target WHERE t.id = target.id AND target.status = 'running'
      AND target.cancel_requested_at IS NULL
    RETURNING t.id
  ),
  logged AS (
    INSERT INTO regente.events (task_id, runner_id, attempt, event, details)
    SELECT id, runner_id, attempt,
           CASE status WHEN 'running' THEN 'task_cancel_requested' ELSE 'task_canceled' END,
           jsonb_build_object('by', author)
    FROM target WHERE id IN (SELECT id FROM ended UNION ALL SELECT id FROM asked)
  )
  SELECT pg_notify('regente_cancel', runner_id::text) FROM target
  WHERE id IN (SELECT id FROM asked) INTO author;
END $$;

CREATE FUNCTION regente.update_mission() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  author text := regente.sql_author();
  changed text[];
  state regente.mission_status;
BEGIN
  SELECT array_agg(n.key) INTO changed FROM jsonb_each(to_jsonb(NEW)) AS n
  WHERE n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key;
  IF NEW.status IN ('running', 'completed', 'failed') AND NEW.status <> OLD.status THEN
    RAISE EXCEPTION 'a mission becomes % by what its worker and writer do', NEW.status
    USING ERRCODE = 'RG001', HINT = 'Regente gives queued missions to workers: UPDATE missions SET '
      'status = ''queued'', and `regente orchestrator start`.';
  ELSIF NOT changed <@ (CASE NEW.status
    WHEN 'queued' THEN '{status,checkpoint,queued_at}' WHEN 'canceled' THEN '{status,finished_at}'
    ELSE '{}' END)::text[]
     OR (NEW.checkpoint IS DISTINCT FROM OLD.checkpoint AND NEW.checkpoint <> 'atribuido') THEN
    RAISE EXCEPTION 'these columns of a mission are written by Regente: %',
      array_to_string(changed, ', ') USING ERRCODE = '428C9',
      HINT = 'UPDATE missions SET status = ''queued'' or ''canceled''. For other days or languages '
        'cancel it and INSERT another one.';
  END IF;
  PERFORM FROM regente.tasks WHERE id = OLD.id FOR UPDATE;
  SELECT m.status INTO state FROM regente.missions m WHERE m.id = OLD.id;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  IF state <> NEW.status THEN
    IF state <> OLD.status THEN
      RAISE serialization_failure
      USING MESSAGE = format('mission %s is %s by now, no longer %s', OLD.id, state, OLD.status),
        HINT = 'Repeat the statement.';
    ELSIF NEW.status = 'queued' AND state = 'draft' THEN
      PERFORM regente.queue_draft(OLD.id, CASE WHEN NEW.queued_at IS DISTINCT FROM OLD.queued_at
                                               THEN NEW.queued_at END, author);
    ELSIF NEW.status = 'queued' AND state IN ('failed', 'canceled') THEN
      PERFORM regente.queue_again(OLD.id, author);
    ELSIF NEW.status = 'canceled' AND state IN ('draft', 'queued', 'running') THEN
      PERFORM regente.cancel_mission(OLD.id, author);
    ELSE
      RAISE EXCEPTION 'mission % cannot go from % to %', OLD.id, state, NEW.status
      USING ERRCODE = 'RG001', HINT = CASE
        WHEN state = 'completed' AND NEW.status = 'queued'
        THEN 'To extract its days again, INSERT another mission.'
        WHEN NEW.status = 'queued' THEN 'Cancel it first, or `regente orchestrator stop --now`.'
        ELSE 'There is nothing to cancel: it has ended.' END;
    END IF;
  END IF;
  SELECT m.* INTO NEW FROM regente.missions m WHERE m.id = OLD.id;
  RETURN NEW;
END $$;

CREATE FUNCTION regente.refuse_mission_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'missions are kept with their log' USING ERRCODE = '0A000',
    HINT = 'UPDATE missions SET status = ''canceled''; ended ones are deleted by age, see '
      '`regente settings set retention_days`.';
END $$;

-- The log of a mission's own changes is written with the change: an entry that says so again is the
-- one that is there. Other entries are stored as the author's.
CREATE FUNCTION regente.insert_mission_log() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stored bigint;
  there regente.mission_logs;
  asked timestamptz;
BEGIN
  IF NEW.mission_id IS NULL OR NEW.event IS NULL THEN
    RAISE not_null_violation USING MESSAGE = 'an entry of the log needs a mission_id and an event';
  END IF;
  SELECT t.cancel_requested_at INTO asked FROM regente.mission_runs r
  JOIN regente.tasks t ON t.id = r.mission_id WHERE r.mission_id = NEW.mission_id;
  IF NOT FOUND THEN
    RAISE foreign_key_violation USING MESSAGE = format('there is no mission %s', NEW.mission_id);
  END IF;
  IF NEW.event IN ('mission_queued', 'mission_assigned', 'mission_canceled', 'mission_completed',
                   'mission_failed') THEN
    SELECT l.* INTO there FROM regente.mission_logs l
    WHERE l.mission_id = NEW.mission_id AND (l.event = NEW.event OR l.event IN (
      'mission_queued', 'mission_canceled', 'mission_completed', 'mission_failed'))
    ORDER BY l.id DESC LIMIT 1;
    IF there.event = NEW.event THEN
      RETURN there;
    ELSIF NEW.event = 'mission_canceled' AND asked IS NOT NULL THEN
      RETURN NULL;  -- it follows when the worker has stopped
    END IF;
    RAISE EXCEPTION 'the log says % when it happens, and it has not', NEW.event
    USING ERRCODE = 'RG001',
      HINT = 'UPDATE missions SET status = ''queued'' or ''canceled'' writes its entry itself.';
  END IF;
  stored := CASE WHEN NEW.id ~ '^ml_[0-9]{19}$' THEN substr(NEW.id, 4)::bigint END;
  IF stored NOT BETWEEN 1 AND (SELECT last_value FROM regente.events_id_seq)
     OR (stored IS NULL AND NEW.id IS NOT NULL) THEN
    RAISE EXCEPTION '% is not an id that was given out', NEW.id USING ERRCODE = '428C9',
      HINT = 'Leave the id out, or take it from generate_mission_log_id().';
  END IF;
  stored := coalesce(stored, nextval('regente.events_id_seq'));
  INSERT INTO regente.events (id, task_id, event, details) OVERRIDING SYSTEM VALUE
  VALUES (stored, NEW.mission_id, 'mission_log_added', jsonb_strip_nulls(jsonb_build_object(
    'by', regente.sql_author(), 'event', NEW.event, 'timestamp', NEW.timestamp))
    || jsonb_build_object('details', NEW.details));
  SELECT l.* INTO NEW FROM regente.mission_logs l
  WHERE l.mission_id = NEW.mission_id AND l.id = 'ml_' || lpad(stored::text, 19, '0');
  RETURN NEW;
END $$;

CREATE FUNCTION regente.refuse_log_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is only added to' USING ERRCODE = '0A000',
    HINT = 'INSERT INTO mission_logs (mission_id, event, details) adds an entry.';
END $$;

CREATE TRIGGER missions_are_inserted INSTEAD OF INSERT ON regente.missions FOR EACH ROW
    EXECUTE FUNCTION regente.insert_mission();
CREATE TRIGGER missions_are_updated INSTEAD OF UPDATE ON regente.missions FOR EACH ROW
    EXECUTE FUNCTION regente.update_mission();
CREATE TRIGGER missions_are_kept INSTEAD OF DELETE ON regente.missions FOR EACH ROW
    EXECUTE FUNCTION regente.refuse_mission_delete();
CREATE TRIGGER mission_logs_are_inserted INSTEAD OF INSERT ON regente.mission_logs FOR EACH ROW
    EXECUTE FUNCTION regente.insert_mission_log();
CREATE TRIGGER mission_logs_are_kept INSTEAD OF UPDATE OR DELETE ON regente.mission_logs
    FOR EACH ROW EXECUTE FUNCTION regente.refuse_log_change();

-- Queueing in SQL opens the orchestrator as queueing elsewhere does, unless a person stopped it. At
-- the commit: a transaction that stays open would keep everything else from queueing.
CREATE FUNCTION regente.open_orchestrator() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  row regente.orchestrator;
BEGIN
  IF current_setting('regente.opened_in', true) = pg_current_xact_id()::text
     OR EXISTS (SELECT FROM regente.settings WHERE key = 'auto_start' AND value = 'false') THEN
    RETURN NULL;
  END IF;
  PERFORM set_config('regente.opened_in', pg_current_xact_id()::text, true);
  SELECT o.* INTO row FROM regente.orchestrator o FOR UPDATE;
  IF row.stopped_by IS NOT NULL OR row.state IN ('draining', 'halting') THEN
    RETURN NULL;
  END IF;
  IF NOT EXISTS (SELECT FROM regente.tasks t
                 WHERE t.id = row.task_id AND t.status < 'completed') THEN
    INSERT INTO regente.tasks (pipeline) VALUES ('orchestrator') RETURNING id INTO row.task_id;
    INSERT INTO regente.events (task_id, event) VALUES (row.task_id, 'task_queued');
    INSERT INTO regente.events (event, details)
    VALUES ('orchestrator_opened', jsonb_build_object('by', regente.sql_author()));
    PERFORM pg_notify('regente_queued', 'orchestrator');
  END IF;
  UPDATE regente.orchestrator SET state = 'open', task_id = row.task_id, closed_at = NULL,
    opened_at = CASE WHEN state = 'closed' THEN regente.clock() ELSE opened_at END;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER mission_runs_open_the_orchestrator
    AFTER INSERT OR UPDATE ON regente.mission_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (current_setting('regente.queued_in_sql', true) = 'on')
    EXECUTE FUNCTION regente.open_orchestrator();
