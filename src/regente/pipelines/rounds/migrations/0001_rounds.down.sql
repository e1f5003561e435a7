DROP VIEW regente.scrape_jobs;
DROP VIEW regente.scrape_tasks;
DROP TABLE regente.match_stats;
DROP TABLE regente.match_events;
ALTER TABLE regente.matches DROP CONSTRAINT match_has_a_home_team, DROP
    CONSTRAINT match_has_an_away_team;
DROP TABLE regente.match_teams;
DROP TABLE regente.matches;
DROP TYPE regente.match_side;
DROP TABLE regente.teams;
DROP TABLE regente.round_matches;
DROP TABLE regente.rounds;
DROP FUNCTION regente.check_match_is_whole();
