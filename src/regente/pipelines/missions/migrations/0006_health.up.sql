-- Proxies are judged by comparison with others, writers have health as proxies have, and a mission
-- avoids what it failed through for a limited time.

ALTER TABLE regente.mission_runs
  ADD COLUMN avoid_since timestamptz,  -- when it failed through the proxy that it avoids
  ADD COLUMN avoid_writer_id text;     -- the one whose job failed last

ALTER TABLE regente.sessions
  ADD COLUMN completed integer NOT NULL DEFAULT 0,     -- missions that were scraped on it
  ADD COLUMN suspect boolean NOT NULL DEFAULT false,   -- it failed, and the proxy may be to blame
  ADD COLUMN blamed boolean NOT NULL DEFAULT false;    -- its failure is in the proxy's fail_count
CREATE INDEX sessions_of_proxy ON regente.sessions (proxy_id, id) WHERE proxy_id IS NOT NULL;

ALTER TABLE regente.writers
  ADD COLUMN failures integer NOT NULL DEFAULT 0,     -- calls that failed, in a row
  ADD COLUMN failed_jobs integer NOT NULL DEFAULT 0,  -- jobs that failed, in a row
  ADD COLUMN rest_until timestamptz,                  -- it gets no job before
  ADD COLUMN last_failed_at timestamptz,
  ADD COLUMN error_code varchar(20),
  ADD COLUMN error_message text;

-- Activated by hand, also in SQL, a writer begins without failures, as a proxy does.
CREATE FUNCTION regente.begin_anew() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.failures := 0;
  NEW.failed_jobs := 0;
  NEW.rest_until := NULL;
  NEW.error_code := NULL;
  NEW.error_message := NULL;
  RETURN NEW;
END $$;
CREATE TRIGGER writers_begin_anew BEFORE UPDATE OF active ON regente.writers FOR EACH ROW
    WHEN (NEW.active AND NOT OLD.active) EXECUTE FUNCTION regente.begin_anew();
