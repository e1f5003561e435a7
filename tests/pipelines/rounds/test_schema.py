"""The schema itself refuses half a match, from every writer."""

from __future__ import annotations

import psycopg
import pytest

from tests.pipelines.rounds.conftest import DatabaseReader

ROUND = "INSERT INTO regente.rounds (league, number) VALUES ('l', 1)"
LISTED = (
    "INSERT INTO regente.round_matches (round_id, match_id, place, task_id, url) VALUES (1, "
    "'m', 1, 1, 'u')"
)
TEAMS = "INSERT INTO regente.teams (league, slug, name) VALUES ('l', 'a', 'A'), ('l', 'b', 'B')"
MATCH = (
    "INSERT INTO regente.matches (round_id, match_id, league, task_id, url, kickoff_at, "
    "venue, events_said, stats_said)"
    " VALUES (1, 'm', 'l', 1, 'u', now(), 'v', 2, 1)"
)
SIDES = "INSERT INTO regente.match_teams VALUES (1, 'home', 1, 1), (1, 'away', 2, 1)"
EVENTS = (
    "INSERT INTO regente.match_events VALUES (1, 1, 'home', 10, 'goal', 'Ada'), (1, 2, 'home', "
    "20, 'own_goal', 'Bento')"
)
STATS = "INSERT INTO regente.match_stats VALUES (1, 'home', 'shots', 3)"
WHOLE = (MATCH, SIDES, EVENTS, STATS)


@pytest.fixture(autouse=True)
def ground(db: DatabaseReader) -> None:
    for statement in (ROUND, LISTED, TEAMS):
        db.connection.execute(statement)


def write(db: DatabaseReader, *statements: str) -> None:
    with db.connection.transaction():
        for statement in statements:
            db.connection.execute(statement.encode())


def test_a_whole_match_is_taken_and_can_be_deleted_whole(db: DatabaseReader) -> None:
    """Z6: the constraints accept a complete match."""
    write(db, *WHOLE)
    assert db.count("matches") == 1
    write(db, "DELETE FROM regente.matches")
    assert [
        db.count(table) for table in ("matches", "match_teams", "match_events", "match_stats")
    ] == [0, 0, 0, 0]


HALF = [
    ((MATCH,), "match_has_a_home_team"),
    ((MATCH, SIDES), "match_is_whole"),
    ((MATCH, SIDES, EVENTS), "match_is_whole"),
    ((MATCH, SIDES, STATS), "match_is_whole"),
    ((*WHOLE, "DELETE FROM regente.match_events WHERE place = 2"), "match_is_whole"),
    ((*WHOLE, "DELETE FROM regente.match_teams WHERE side = 'away'"), "match_has_an_away_team"),
    ((*WHOLE, "UPDATE regente.match_teams SET goals = 2 WHERE side = 'away'"), "goals_were_shot"),
    ((*WHOLE, "UPDATE regente.match_teams SET team_id = 1"), "match_teams_match_team_id_key"),
    ((*WHOLE, MATCH), "matches_league_match_id_key"),
    ((*WHOLE, "UPDATE regente.matches SET match_id = 'other'"), "matches_round_id_match_id_fkey"),
    ((*WHOLE, "UPDATE regente.matches SET status = 'live'"), "matches_status_check"),
]


def test_half_a_match_is_refused_at_the_latest_when_it_is_committed(db: DatabaseReader) -> None:
    """Z3, Z6: and no row of it is left."""
    for statements, constraint in HALF:
        # Identities go on after a rollback: they begin again for each try.
        db.connection.execute("ALTER TABLE regente.matches ALTER COLUMN id RESTART")
        with pytest.raises(psycopg.errors.IntegrityError) as refused:
            write(db, *statements)
        assert refused.value.diag.constraint_name == constraint, statements
        assert [
            db.count(table) for table in ("matches", "match_teams", "match_events", "match_stats")
        ] == [0, 0, 0, 0]


LATER = (
    "DELETE FROM regente.match_events WHERE place = 1",
    "DELETE FROM regente.match_stats",
    "DELETE FROM regente.match_teams WHERE side = 'home'",
    "INSERT INTO regente.match_events VALUES (1, 3, 'home', 30, 'yellow_card', 'Caio')",
    "UPDATE regente.matches SET events_said = 3",
    "DELETE FROM regente.teams",
    "DELETE FROM regente.round_matches",
)


def test_a_whole_match_cannot_become_half_a_match(db: DatabaseReader) -> None:
    """Z6: also later, by SQL."""
    write(db, *WHOLE)
    for statement in LATER:
        with pytest.raises(psycopg.errors.IntegrityError):
            write(db, statement)
        assert [
            db.count(table) for table in ("matches", "match_teams", "match_events", "match_stats")
        ] == [1, 2, 2, 1]
