-- Queries of rounds and matches.

-- name: be_brief
SELECT set_config('idle_in_transaction_session_timeout', '5s', true),
       set_config('lock_timeout', '10s', true)

-- name: check_now
SET CONSTRAINTS ALL IMMEDIATE

-- name: open_round
-- Of two concurrent starts of a round the second waits here for the first.
INSERT INTO regente.rounds AS r (league, number) VALUES (%(league)s, %(number)s)
ON CONFLICT (league, number) DO UPDATE SET league = excluded.league
RETURNING r.id, r.discoveries, (SELECT t.status::text FROM regente.tasks t
                                WHERE t.id = r.task_id) AS task_status

-- name: begin_round
UPDATE regente.rounds r SET task_id = t.id, batch_id = t.batch_id, discoveries = %(discoveries)s
FROM regente.tasks t WHERE r.id = %(round_id)s AND t.id = %(task_id)s RETURNING r.id

-- name: list_matches_of_round
INSERT INTO regente.round_matches AS rm (round_id, match_id, place, task_id, url)
SELECT %(round_id)s, w.match_id, w.place, w.task_id, w.url
FROM unnest(%(match_ids)s::text[], %(task_ids)s::bigint[], %(urls)s::text[]) WITH ORDINALITY
    AS w (match_id, task_id, url, place)
ON CONFLICT (round_id, match_id) DO UPDATE SET place = excluded.place, task_id = excluded.task_id,
    url = excluded.url

-- name: replace_tasks
UPDATE regente.round_matches rm SET task_id = w.task_id
FROM unnest(%(match_ids)s::text[], %(task_ids)s::bigint[]) AS w (match_id, task_id)
WHERE rm.round_id = %(round_id)s AND rm.match_id = w.match_id

-- name: round_discovered
UPDATE regente.rounds SET discovered_at = regente.clock(), matches_said = %(matches)s
WHERE id = %(round_id)s RETURNING id

-- name: round_counts
SELECT count(*) AS listed FROM regente.round_matches WHERE round_id = %(round_id)s

-- name: stored_match
SELECT id, task_id, events_said, stats_said FROM regente.matches WHERE league = %(league)s
    AND match_id = %(match_id)s

-- name: since_kickoff
SELECT extract(epoch FROM regente.clock() - %(kickoff_at)s::timestamptz) AS seconds

-- name: put_teams
INSERT INTO regente.teams AS t (league, slug, name)
SELECT %(league)s, w.slug, w.name FROM unnest(%(slugs)s::text[], %(names)s::text[]) WITH ORDINALITY
    AS w (slug, name, place)
ORDER BY w.place
ON CONFLICT (league, slug) DO UPDATE SET name = excluded.name WHERE t.name <> excluded.name

-- name: put_match
INSERT INTO regente.matches
  (round_id, match_id, league, task_id, url, kickoff_at, venue, attendance, events_said, stats_said)
VALUES (%(round_id)s, %(match_id)s, %(league)s, %(task_id)s, %(url)s, %(kickoff_at)s, %(venue)s,
        %(attendance)s, %(events_said)s,
        %(stats_said)s)
RETURNING id, task_id, events_said, stats_said

-- name: put_match_rows
INSERT INTO regente.match_teams (match, side, team_id, goals)
SELECT %(match)s, w.side::regente.match_side, t.id, w.goals
FROM jsonb_to_recordset(%(teams)s) AS w (side text, slug text, goals integer)
JOIN regente.teams t ON t.league = %(league)s AND t.slug = w.slug

-- name: put_events
INSERT INTO regente.match_events (match, place, side, minute, kind, player)
SELECT %(match)s, e.place, (e.value ->> 'side')::regente.match_side,
       (e.value ->> 'minute')::integer, e.value ->> 'kind',
       e.value ->> 'player'
FROM jsonb_array_elements(%(events)s) WITH ORDINALITY AS e (value, place)

-- name: put_stats
INSERT INTO regente.match_stats (match, side, name, value)
SELECT %(match)s, w.side::regente.match_side, w.name, w.value
FROM jsonb_to_recordset(%(stats)s) AS w (side text, name text, value integer)

-- name: list_rounds
SELECT * FROM regente.scrape_jobs j
WHERE (%(round_id)s::bigint IS NULL OR j.id = %(round_id)s)
  AND (%(league)s::text IS NULL OR j.league = %(league)s)
  AND (%(number)s::integer IS NULL OR j.number = %(number)s)
  AND (%(before_id)s::bigint IS NULL OR j.id < %(before_id)s)
  AND (%(batch_id)s::bigint IS NULL OR j.batch_id = %(batch_id)s)
ORDER BY j.id DESC LIMIT %(limit)s

-- name: matches_of_round
SELECT s.match_id, s.url, s.task_id, s.status, s.attempt_count, s.tries, s.run_at, s.finished_at,
       s.error_code, s.error_message,
       CASE WHEN s.status = 'SKIPPED' THEN (
         SELECT e.details ->> 'reason' FROM regente.events e
         WHERE e.task_id = s.task_id AND e.event = 'task_skipped' ORDER BY e.id DESC
         LIMIT 1) END AS reason,
       m.kickoff_at, h.name AS home, ht.goals AS home_goals, a.name AS away, at.goals AS away_goals,
       m.events_said AS events,
       m.stats_said AS stats, m.venue, m.attendance, m.stored_at, s.stored_id
FROM regente.scrape_tasks s
LEFT JOIN regente.matches m ON m.id = s.stored_id
LEFT JOIN regente.match_teams ht ON ht.match = m.id AND ht.side = 'home' LEFT
    JOIN regente.teams h ON h.id = ht.team_id
LEFT JOIN regente.match_teams at ON at.match = m.id AND at.side = 'away' LEFT
    JOIN regente.teams a ON a.id = at.team_id
WHERE s.job_id = %(round_id)s AND (%(match_id)s::text IS NULL OR s.match_id = %(match_id)s)
ORDER BY s.place, s.match_id

-- name: events_of_match
SELECT e.minute, e.kind, e.side::text AS side, e.player FROM regente.match_events e
WHERE e.match = %(match)s ORDER BY e.place

-- name: stats_of_match
SELECT s.name, s.side::text AS side, s.value FROM regente.match_stats s WHERE s.match = %(match)s
ORDER BY s.name, s.side

-- name: rounds_to_retry
-- Rounds with missing matches or pages.
SELECT j.id, j.league, j.number, j.task_id, j.batch_id, j.discovered_at,
       t.status::text AS task_status, t.error_code
FROM regente.scrape_jobs j LEFT JOIN regente.tasks t ON t.id = j.task_id
WHERE (%(round_id)s::bigint IS NULL OR j.id = %(round_id)s) AND j.id > %(after_id)s
  AND (j.discovered_at IS NULL OR j.finished < j.listed OR t.status IN ('failed', 'canceled'))
ORDER BY j.id LIMIT %(limit)s

-- name: matches_to_retry
SELECT s.match_id, s.url, s.task_id, s.status, s.error_code FROM regente.scrape_tasks s
WHERE s.job_id = %(round_id)s AND s.status IN ('FAILED', 'SKIPPED', 'CANCELED', 'MISSING')
  AND (%(codes)s::text[] IS NULL OR s.error_code = ANY (%(codes)s::text[]))
ORDER BY s.place, s.match_id

-- name: failed_for_good
SELECT (SELECT count(*) FROM (SELECT FROM regente.tasks WHERE status = 'failed'
                              AND pipeline = 'matches' LIMIT 100000) AS m) AS matches,
       (SELECT count(*) FROM (SELECT FROM regente.tasks WHERE status = 'failed'
                              AND pipeline = 'rounds' LIMIT 100000) AS r) AS rounds
