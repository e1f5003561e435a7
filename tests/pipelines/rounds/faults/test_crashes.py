"""A runner killed at every crash point of rounds, while a checker looks for half matches."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from regente import Regente
from regente.engine.crashpoints import CRASH_POINTS
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.standins.league import League
from regente.services.sandbox import Sandbox
from tests.pipelines.rounds.conftest import LEAGUE, DatabaseReader, until_state
from tests.pipelines.rounds.faults.campaign import Campaign
from tests.pipelines.rounds.forked_runner import forked_runner
from tests.pipelines.rounds.match_checker import ContinuousCheck, half_matches
from tests.support.audit import audit
from tests.support.eventually import eventually
from tests.support.running import runner_in

NOT_MET = {
    "enqueue.before_commit",
    "enqueue.committed",  # matches are queued in the task's own transaction
    "step.before_record",
    "step.recorded",
    "sleep.committed",  # rounds have neither plain steps nor sleeps
    "intent.committed",  # nor calls that are held
    "stall.settled",
    "schedule.before_commit",
    "schedule.fired",
    "locked.committed",  # no other session locks their rows
    "migrate.statement",
    "change.committed",  # nor changes, signals, children and tasks in lanes
    "signal.received",
    "claim.lanes_committed",
    "children.spawned",
    "children.recorded",
}
EXPIRE = (
    "UPDATE regente.runners SET lease_until = regente.clock() - interval '1 second' WHERE "
    "status < 'stopped' RETURNING id"
)


@dataclass(frozen=True)
class Crash:
    point: str
    passage: int = 1
    fault: dict[str, Any] = field(default_factory=dict)
    orphaned: bool = False  # an earlier runner has left its tasks behind
    drained: bool = False  # told to stop while a match hangs

    @property
    def armed(self) -> str:
        return f"{self.point}:{self.passage}"


FAULT = {"kind": "unavailable", "count": 1}
CRASHES = {
    "before anything": [
        Crash("register.committed"),
        Crash("lease.renewed"),
        Crash("claim.committed"),
    ],
    "at the round": [
        Crash("transaction.before_commit"),
        Crash("transaction.committed"),
        Crash("finish.before"),
        Crash("finish.committed"),
    ],
    "in the lane of the site": [
        Crash("lanes.entered", 3),
        Crash("lanes.before_leave", 2),
        Crash("lanes.before_report", 2),
    ],
    "at its matches": [
        Crash("claim.committed", 2),
        Crash("mark.committed", 4),
        Crash("transaction.before_commit", 2),
        Crash("transaction.before_commit", 11),
        Crash("transaction.committed", 6),
    ],
    "at their ends": [
        Crash("finish.before", 3),
        Crash("settle.before", fault=FAULT),
        Crash("settle.committed", fault=FAULT),
    ],
    "behind them": [
        Crash("batch.closed"),
        Crash("lost.committed", orphaned=True),
        Crash("reap.committed", orphaned=True),
        Crash("drain.handed_back", drained=True),
    ],
}


def test_every_crash_point_that_rounds_meet_is_tried() -> None:
    """F2: each new crash point must be listed here, too."""
    assert {crash.point for crashes in CRASHES.values() for crash in crashes} == set(
        CRASH_POINTS
    ) - NOT_MET


@pytest.mark.parametrize("where", sorted(CRASHES))
async def test_a_runner_killed_anywhere_leaves_no_half_match(
    where: str,
    app: Regente,
    operations: RoundOperations,
    sandbox: Sandbox,
    league: League,
    database_url: str,
    db: DatabaseReader,
    tmp_path: Path,
) -> None:
    """Z1, Z6, Z8, Z9: one round per crash point, ended by another runner, stored once."""
    with ContinuousCheck(database_url) as watch:
        for number, crash in enumerate(CRASHES[where], 1):
            started = await operations.start(LEAGUE, number)
            log = tmp_path / f"{number}"
            await asyncio.to_thread(die, crash, number, database_url, sandbox, league, db, log)
            assert half_matches(db.connection) == [], crash
            db.rows(EXPIRE)
            async with runner_in(app):
                await until_state(operations, started.id, "FINISHED", within_seconds=30)
            asked = [
                league.calls[f"match {match.id}"] for match in league.calendar.round(LEAGUE, number)
            ]
            assert all(1 <= count <= 3 for count in asked), (crash, asked)
    assert watch.found == []
    assert watch.looks > 10
    assert len(watch.seen) > len(CRASHES[where]), (
        "the checker must have looked while matches were being stored"
    )
    assert half_matches(db.connection) == []
    assert db.count("matches") == 10 * len(CRASHES[where])
    with psycopg.connect(database_url) as connection:
        assert audit(connection) == []


def die(
    crash: Crash,
    number: int,
    url: str,
    sandbox: Sandbox,
    league: League,
    db: DatabaseReader,
    log: Path,
) -> None:
    """Kills a runner at this crash point during this round."""
    victim = league.calendar.round(LEAGUE, number)[3].id
    if crash.fault:
        league.break_with(match_id=victim, **crash.fault)
    if crash.orphaned:
        with forked_runner(
            url, sandbox.url, log.with_suffix(".first"), REGENTE_CRASH_POINT="claim.committed:2"
        ) as first:
            first.killed()
        db.rows(EXPIRE)
    if crash.drained:
        league.break_with("hang", match_id=victim, count=1)
    with forked_runner(url, sandbox.url, log, REGENTE_CRASH_POINT=crash.armed) as runner:
        if crash.drained:
            eventually(lambda: league.calls.get(f"match {victim}", 0) == 1, within_seconds=30)
            runner.kill(signal.SIGTERM)
        runner.killed()


async def test_runners_killed_at_random_moments(
    app: Regente,
    operations: RoundOperations,
    sandbox: Sandbox,
    league: League,
    database_url: str,
    db: DatabaseReader,
    tmp_path: Path,
) -> None:
    """Z6, Z8: three rounds with faults from one seed; `python -m` runs more."""
    campaign = Campaign(seed=11, rounds=3, kills=3)
    with ContinuousCheck(database_url) as watch:
        told = await campaign.run(app, operations, sandbox, league, database_url, tmp_path)
    assert watch.found == [], told
    assert watch.looks > 20
    assert half_matches(db.connection) == []
    assert told.unfinished == [], told
    assert db.count("matches") == 30 - told.fatal


def test_the_checker_finds_half_matches_of_every_kind(db: DatabaseReader) -> None:
    """Rows that were written with the constraints off."""
    connection = db.connection
    connection.execute("SET session_replication_role = replica")
    connection.execute(
        "INSERT INTO regente.rounds (league, number, discovered_at, matches_said) VALUES "
        "('l', 1, now(), 10)"
    )
    assert [one.partition(" is")[0] for one in half_matches(connection)] == ["round 1"]
    connection.execute("UPDATE regente.rounds SET discovered_at = NULL, matches_said = NULL")
    connection.execute(
        "INSERT INTO regente.matches (round_id, match_id, league, task_id, url, "
        "kickoff_at, venue, events_said, stats_said)"
        " VALUES (1, 'm', 'l', 1, 'u', now(), 'v', 3, 16)"
    )
    assert half_matches(connection) == [
        "match m has 0 teams, 0 of 3 events, 0 stats; score by teams 0, by events 0"
    ]
    connection.execute("UPDATE regente.matches SET events_said = 0")
    connection.execute(
        "INSERT INTO regente.teams (league, slug, name) VALUES ('l', 'a', 'A'), ('l', 'b', "
        "'B'), ('l', 'c', 'C')"
    )
    connection.execute(
        "INSERT INTO regente.match_teams VALUES (1, 'home', 1, 0), (1, 'away', 2, 1)"
    )
    connection.execute(
        "INSERT INTO regente.match_stats SELECT 1, 'home', n::text, 0 FROM "
        "generate_series(1, 16) AS n"
    )
    assert half_matches(connection) == [
        "match m has 2 teams, 0 of 0 events, 16 stats; score by teams 1, by events 0",
        "team c plays no match",
    ]
    connection.execute("DELETE FROM regente.matches")
    assert {one for one in half_matches(connection) if one.endswith("has no match")} == {
        "match_teams 1 has no match",
        "match_stats 1 has no match",
    }
