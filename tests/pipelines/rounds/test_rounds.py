"""A round from its start to its last match, against a real site and a real database."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import psycopg
import pytest

from regente import InvalidInput, NotFound, Regente
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.standins.league import League
from tests.pipelines.rounds.conftest import LEAGUE, DatabaseReader, run_round, until_state
from tests.support.eventually import eventually_async
from tests.support.running import runner_in


async def test_a_round_is_discovered_and_every_match_is_stored_as_it_was_played(
    app: Regente, operations: RoundOperations, league: League, db: DatabaseReader
) -> None:
    """Z1, Z6: ten tasks, ten matches with teams, events, stats, and a result that adds up."""
    matches = await run_round(app)
    played = {match.id: match for match in league.calendar.round(LEAGUE, 12)}
    assert set(matches) == set(played)
    for match_id, match in matches.items():
        truth = played[match_id]
        assert (match.status, match.attempt_count, match.error_code) == ("FINISHED", 1, None)
        assert (match.home, match.away) == (truth.home[1], truth.away[1])
        assert (match.home_goals, match.away_goals) == truth.goals
        assert (match.events, match.stats, match.kickoff_at) == (
            len(truth.events),
            len(truth.stats),
            truth.kickoff,
        )
    found = await operations.get(1)
    assert (found.status, found.listed, found.finished, found.failed) == ("FINISHED", 10, 10, 0)
    assert [
        db.count(table) for table in ("rounds", "round_matches", "matches", "match_teams", "teams")
    ] == [1, 10, 10, 20, 20]
    assert db.count("match_events") == sum(len(match.events) for match in played.values())
    assert db.count("match_stats") == 160
    assert league.calls == {"round 12": 1, **{f"match {match_id}": 1 for match_id in played}}


async def test_what_is_stored_of_a_match_is_what_the_page_says(
    app: Regente, operations: RoundOperations, league: League
) -> None:
    """Z6: names with accents, quotes and angle brackets, unchanged."""
    await run_round(app)
    truth = league.calendar.round(LEAGUE, 12)[3]
    detail = await operations.match(1, truth.id)
    assert (detail.venue, detail.attendance) == (truth.venue, truth.attendance)
    assert [(one.minute, one.kind, one.side, one.player) for one in detail.event_list] == [
        (one.minute, one.kind, one.side, one.player) for one in truth.events
    ]
    assert {(one.name, one.side, one.value) for one in detail.stat_list} == set(truth.stats)
    assert await app.failures(detail.task_id) == []
    with pytest.raises(NotFound, match="has no match nothing"):
        await operations.match(1, "nothing")


async def test_every_match_has_its_task_before_the_first_is_asked_for(
    app: Regente, operations: RoundOperations, league: League, db: DatabaseReader
) -> None:
    """Z1: with `matches` paused ten tasks wait, and no match page was fetched."""
    await app.pause("matches")
    started = await operations.start(LEAGUE, 3)
    assert (started.status, started.listed) == ("PENDING", 0)
    async with runner_in(app):

        async def discovered() -> bool:
            return (await operations.get(started.id)).listed == 10

        await eventually_async(discovered)
        assert [match.status for match in await operations.matches(started.id)] == ["PENDING"] * 10
        assert league.calls == {"round 3": 1}
        (row,) = db.rows(
            "SELECT count(*) AS tasks FROM regente.tasks WHERE pipeline = 'matches' AND "
            "status = 'queued'"
        )
        assert row["tasks"] == 10
        assert (db.rows("SELECT total FROM regente.batches"))[0]["total"] == 11
        await app.resume("matches")
        await until_state(operations, started.id, "FINISHED")


async def test_a_round_that_is_started_again_is_the_same_job(
    app: Regente, operations: RoundOperations, league: League
) -> None:
    """Z1, Z5: started twice at once, and again when it is done."""
    both = await asyncio.gather(*(operations.start(LEAGUE, 12) for _ in range(5)))
    assert len({(one.id, one.task_id) for one in both}) == 1
    await app.run(until_idle=True)
    again = await operations.start(LEAGUE, 12)
    await app.run(until_idle=True)
    assert (again.id, again.task_id, again.status) == (both[0].id, both[0].task_id, "FINISHED")
    assert set(league.calls.values()) == {1}


async def test_a_refreshed_round_reads_its_page_again_and_scrapes_nothing_twice(
    app: Regente, operations: RoundOperations, league: League
) -> None:
    """Z8: known matches keep their task; stored ones are not fetched."""
    before = await run_round(app)
    after = await operations.start(LEAGUE, 12, refresh=True)
    assert after.task_id != 1
    await app.run(until_idle=True)
    assert {match.match_id: match.task_id for match in await operations.matches(after.id)} == {
        match_id: match.task_id for match_id, match in before.items()
    }
    assert league.calls == {"round 12": 2, **{f"match {match_id}": 1 for match_id in before}}


async def test_a_match_that_is_there_already_is_skipped(
    app: Regente, operations: RoundOperations, league: League, db: DatabaseReader
) -> None:
    """Z8: its task was deleted; a new task fetches nothing and gives the reason."""
    await run_round(app)
    db.rows("DELETE FROM regente.tasks RETURNING id")
    await operations.start(LEAGUE, 12)
    await app.run(until_idle=True)
    assert {task.status for task in await app.tasks(pipeline="matches")} == {"skipped"}
    assert {match.status for match in await operations.matches(1)} == {"FINISHED"}
    assert (await operations.get(1)).status == "FINISHED"
    assert sum(count for route, count in league.calls.items() if route.startswith("match")) == 10
    (event,) = [
        one
        for one in await app.task_events((await operations.matches(1))[0].task_id)
        if one.event == "task_skipped"
    ]
    assert event.details is not None
    assert event.details["reason"].startswith("already finished: stored as ")


async def test_rounds_of_two_leagues_at_once_share_nothing(
    app: Regente, operations: RoundOperations, db: DatabaseReader
) -> None:
    """Z8: the same numbers and the same match ids in another league."""
    for league in (LEAGUE, "serie-b"):
        for number in (1, 2, 20):
            await operations.start(league, number)
    await app.run(until_idle=True)
    assert {(one.status, one.finished) for one in await operations.find()} == {("FINISHED", 10)}
    assert (db.count("matches"), db.count("teams")) == (60, 40)


async def test_an_invalid_round_is_refused_and_stores_nothing(
    operations: RoundOperations, db: DatabaseReader
) -> None:
    """Bad input gets a clear error."""
    for league, number in (
        ("", 1),
        ("Brasileirão", 1),
        ("a/b", 1),
        ("x" * 101, 1),
        (LEAGUE, 0),
        (LEAGUE, 1001),
    ):
        with pytest.raises(InvalidInput, match=r"league|round"):
            await operations.start(league, number)
    assert (db.count("rounds"), db.count("tasks"), db.count("batches")) == (0, 0, 0)
    with pytest.raises(NotFound):
        await operations.get(99)
    with pytest.raises(NotFound):
        await operations.named(LEAGUE, 5)


async def test_a_deadlock_with_another_session_costs_only_time(
    operations: RoundOperations, database_url: str
) -> None:
    """F14, Z5: PostgreSQL ends one of the two; the round is started all the same."""
    first = await operations.start(LEAGUE, 12)
    victim = ""
    while victim != "start":  # PostgreSQL chooses, and on a busy machine also the other one
        victim, started = await _start_into_a_deadlock(operations, database_url)
        assert started == first.id


async def _start_into_a_deadlock(operations: RoundOperations, database_url: str) -> tuple[str, int]:
    """Which of the two sessions PostgreSQL ended, and the round that was started."""
    async with (
        await psycopg.AsyncConnection.connect(database_url) as holder,
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as observer,
    ):
        await holder.execute("SELECT FROM regente.batches FOR UPDATE")
        starting = asyncio.create_task(operations.start(LEAGUE, 12, refresh=True))
        await eventually_async(partial(_is_waiting, observer))
        try:
            await holder.execute("UPDATE regente.rounds SET league = league")
            victim = "start"
        except psycopg.errors.DeadlockDetected:
            victim = "holder"
        await holder.rollback()
    return victim, (await starting).id


async def _is_waiting(observer: psycopg.AsyncConnection[Any]) -> bool:
    found = await observer.execute(
        "SELECT FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    return found.rowcount > 0
