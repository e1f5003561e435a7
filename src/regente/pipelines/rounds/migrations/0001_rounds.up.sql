-- Rounds of a league: which matches a round has, and what became of each.
--
-- A round is a task of the pipeline `rounds`: it reads the round's page and, in one transaction,
-- writes `round_matches` and one task of the pipeline `matches` for each, before any match is
-- scraped. A match's task writes the match with its teams, events and stats in one transaction.
-- What a page said of itself (`events_said`, `stats_said`) must be there when it is committed: the
-- constraints below are deferred, so a half match cannot be committed. Tasks are
-- forgotten in time, these rows stay: that is why `task_id` is no foreign key.

CREATE TABLE regente.rounds (
  id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  league        text NOT NULL CHECK (league ~ '^[a-z0-9][a-z0-9_-]{0,99}$'),
  number        integer NOT NULL CHECK (number BETWEEN 1 AND 1000),
  task_id       bigint,                       -- discovers its matches
  batch_id      bigint,
  discoveries   integer NOT NULL DEFAULT 1,   -- how often its page was asked for on purpose
  matches_said  integer CHECK (matches_said > 0),
  created_at    timestamptz NOT NULL DEFAULT regente.clock(),
  discovered_at timestamptz,
  UNIQUE (league, number),
  CONSTRAINT discovered_is_counted CHECK ((discovered_at IS NULL) = (matches_said IS NULL))
);

CREATE TABLE regente.round_matches (
  round_id  bigint NOT NULL REFERENCES regente.rounds ON DELETE CASCADE,
  match_id  text NOT NULL,                    -- as the league calls it
  place     integer NOT NULL,                 -- where the round's page has it
  task_id   bigint NOT NULL,
  url       text NOT NULL,
  PRIMARY KEY (round_id, match_id)
);
CREATE INDEX round_matches_of_task ON regente.round_matches (task_id);

CREATE TABLE regente.teams (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  league text NOT NULL,
  slug   text NOT NULL,
  name   text NOT NULL,
  UNIQUE (league, slug)
);

CREATE TYPE regente.match_side AS ENUM ('home', 'away');

CREATE TABLE regente.matches (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  round_id     bigint NOT NULL,
  match_id     text NOT NULL,
  league       text NOT NULL,
  task_id      bigint NOT NULL,               -- who stored it
  url          text NOT NULL,
  status       text NOT NULL DEFAULT 'finished' CHECK (status = 'finished'),
  kickoff_at   timestamptz NOT NULL,
  venue        text NOT NULL,
  attendance   integer CHECK (attendance >= 0),
  events_said  integer NOT NULL CHECK (events_said >= 0),
  stats_said   integer NOT NULL CHECK (stats_said > 0),
  stored_at    timestamptz NOT NULL DEFAULT regente.clock(),
  home         regente.match_side NOT NULL DEFAULT 'home' CHECK (home = 'home'),
  away         regente.match_side NOT NULL DEFAULT 'away' CHECK (away = 'away'),
  UNIQUE (league, match_id),
  FOREIGN KEY (round_id, match_id) REFERENCES regente.round_matches
);
CREATE INDEX matches_of_round ON regente.matches (round_id);

CREATE TABLE regente.match_teams (
  match   bigint NOT NULL REFERENCES regente.matches ON DELETE CASCADE,
  side    regente.match_side NOT NULL,
  team_id bigint NOT NULL REFERENCES regente.teams,
  goals   integer NOT NULL CHECK (goals >= 0),
  PRIMARY KEY (match, side),
  UNIQUE (match, team_id)
);
CREATE INDEX match_teams_of_team ON regente.match_teams (team_id);

-- A match has both of its sides when it is committed.
ALTER TABLE regente.matches
  ADD CONSTRAINT match_has_a_home_team FOREIGN KEY (id, home)
      REFERENCES regente.match_teams DEFERRABLE INITIALLY DEFERRED,
  ADD CONSTRAINT match_has_an_away_team FOREIGN KEY (id, away)
      REFERENCES regente.match_teams DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE regente.match_events (
  match  bigint NOT NULL,
  place  integer NOT NULL CHECK (place >= 1),
  side   regente.match_side NOT NULL,
  minute integer NOT NULL CHECK (minute BETWEEN 0 AND 150),
  kind   text NOT NULL
      CHECK (kind IN ('goal', 'own_goal', 'yellow_card', 'red_card', 'substitution')),
  player text NOT NULL,
  PRIMARY KEY (match, place),
  FOREIGN KEY (match, side) REFERENCES regente.match_teams ON DELETE CASCADE
);

CREATE TABLE regente.match_stats (
  match bigint NOT NULL,
  side  regente.match_side NOT NULL,
  name  text NOT NULL,
  value integer NOT NULL CHECK (value >= 0),
  PRIMARY KEY (match, name, side),
  FOREIGN KEY (match, side) REFERENCES regente.match_teams ON DELETE CASCADE
);

-- Looks when the transaction commits: as many events and stats as the page said, as many goals as
-- were shot.
CREATE FUNCTION regente.check_match_is_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  one     bigint := CASE TG_TABLE_NAME
      WHEN 'matches' THEN (to_jsonb(coalesce(NEW, OLD)) ->> 'id')::bigint
                                       ELSE (to_jsonb(coalesce(NEW, OLD)) ->> 'match')::bigint END;
  said    record;
  events  integer;
  stats   integer;
BEGIN
  SELECT m.events_said, m.stats_said INTO said FROM regente.matches m WHERE m.id = one;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  SELECT count(*) INTO events FROM regente.match_events e WHERE e.match = one;
  SELECT count(*) INTO stats FROM regente.match_stats f WHERE f.match = one;
  IF events <> said.events_said OR stats <> said.stats_said THEN
    RAISE EXCEPTION 'match % is not whole: % of % events, % of % stats', one, events,
    said.events_said, stats, said.stats_said
      USING ERRCODE = 'check_violation', CONSTRAINT = 'match_is_whole';
  END IF;
  IF EXISTS (SELECT FROM regente.match_teams t WHERE t.match = one AND t.goals <> (
       SELECT count(*) FROM regente.match_events e
       WHERE e.match = one AND ((e.kind = 'goal' AND e.side = t.side)
                                OR (e.kind = 'own_goal' AND e.side <> t.side)))) THEN
    RAISE EXCEPTION 'match %: its goals are not those of its events', one
      USING ERRCODE = 'check_violation', CONSTRAINT = 'goals_were_shot';
  END IF;
  RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER match_is_whole AFTER INSERT OR UPDATE ON regente.matches
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION regente.check_match_is_whole();
CREATE CONSTRAINT TRIGGER match_stays_whole AFTER INSERT OR UPDATE OR DELETE ON regente.match_events
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION regente.check_match_is_whole();
CREATE CONSTRAINT TRIGGER match_stays_whole AFTER INSERT OR UPDATE OR DELETE ON regente.match_stats
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION regente.check_match_is_whole();
CREATE CONSTRAINT TRIGGER match_stays_whole AFTER UPDATE ON regente.match_teams
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION regente.check_match_is_whole();

-- The journal as the original specification names it: one row per round, one per match.
CREATE VIEW regente.scrape_tasks AS
SELECT rm.round_id AS job_id, rm.match_id, rm.place, rm.url, rm.task_id,
       CASE WHEN m.id IS NOT NULL THEN 'FINISHED' WHEN t.id IS NULL THEN 'MISSING'
            WHEN t.status = 'running' THEN 'RUNNING'
            WHEN t.status IN ('draft', 'queued') THEN 'PENDING'
                WHEN t.status = 'failed' THEN 'FAILED'
            WHEN t.status = 'skipped' THEN 'SKIPPED' WHEN t.status = 'canceled' THEN 'CANCELED'
            ELSE 'MISSING' END AS status,
       coalesce(t.attempt, 0) AS attempt_count, coalesce(t.tries, 0) AS tries, t.run_at,
       t.started_at,
       coalesce(m.stored_at, t.finished_at) AS finished_at,
       CASE WHEN m.id IS NULL THEN t.error_code END AS error_code, CASE
            WHEN m.id IS NULL THEN t.error_message END AS error_message,
       m.id AS stored_id
FROM regente.round_matches rm
LEFT JOIN regente.tasks t ON t.id = rm.task_id
LEFT JOIN regente.rounds r ON r.id = rm.round_id
LEFT JOIN regente.matches m ON m.league = r.league AND m.match_id = rm.match_id;

CREATE VIEW regente.scrape_jobs AS
SELECT r.id, r.league, r.number, r.task_id, r.batch_id, r.created_at, r.discovered_at,
       r.matches_said,
       c.listed, c.finished, c.pending, c.running, c.failed, c.skipped, c.canceled, c.missing,
       CASE WHEN c.running + c.pending > 0 OR t.status = 'running' THEN 'RUNNING'
            WHEN t.status IN ('draft', 'queued') THEN CASE
                WHEN r.discovered_at IS NULL THEN 'PENDING' ELSE 'RUNNING' END
            WHEN r.discovered_at IS NOT NULL AND c.finished = c.listed THEN 'FINISHED'
            WHEN r.discovered_at IS NOT NULL THEN 'INCOMPLETE'
            ELSE 'FAILED' END AS status,
       t.error_code, t.error_message
FROM regente.rounds r
LEFT JOIN regente.tasks t ON t.id = r.task_id
CROSS JOIN LATERAL (
  SELECT count(*) AS listed, count(*) FILTER (WHERE s.status = 'FINISHED') AS finished,
         count(*) FILTER (WHERE s.status = 'PENDING') AS pending,
         count(*) FILTER (WHERE s.status = 'RUNNING') AS running,
         count(*) FILTER (WHERE s.status = 'FAILED') AS failed,
         count(*) FILTER (WHERE s.status = 'SKIPPED') AS skipped,
         count(*) FILTER (WHERE s.status = 'CANCELED') AS canceled,
         count(*) FILTER (WHERE s.status = 'MISSING') AS missing
  FROM regente.scrape_tasks s WHERE s.job_id = r.id) AS c;
