"""One bad match never stops the round: every fault of a site, and what the dead letter keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from regente import Regente
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.read_models import RoundMatch
from regente.pipelines.rounds.standins.league import League
from tests.pipelines.rounds.conftest import LEAGUE, DatabaseReader, config, run_round
from tests.pipelines.rounds.match_checker import half_matches
from tests.support.eventually import eventually_async
from tests.support.running import runner_in

FATAL = {
    "not_found": ("HTTP_404", "This match was taken down"),
    "layout": ("LAYOUT_CHANGED", 'class="x1 x9f"'),
    "missing_field": ("INVALID_DATA", '<h2 class="name"></h2>'),
    "wrong_type": ("INVALID_DATA", "dois"),
    "wrong_count": ("INVALID_DATA", 'id="match"'),
    "away": ("FOREIGN_ADDRESS", "Ad library"),
}
PASSING = ("unavailable", "garbage", "truncated", "cut_off", "hang", "drip")


def victim_of(league: League, number: int = 12) -> str:
    return league.calendar.round(LEAGUE, number)[4].id


async def failed_round(app: Regente, league: League, kind: str, **scope: Any) -> RoundMatch:
    """A round with one bad match and nine stored ones; the bad one."""
    victim = victim_of(league)
    league.break_with(kind, match_id=victim, **scope)
    matches = await run_round(app)
    assert {match.status for match_id, match in matches.items() if match_id != victim} == {
        "FINISHED"
    }
    return matches[victim]


def break_each(league: League, kinds: Iterable[str], **scope: Any) -> dict[str, str]:
    """Each of these faults hits another match of the round."""
    broken = {
        match.id: kind
        for match, kind in zip(league.calendar.round(LEAGUE, 12), kinds, strict=False)
    }
    for match_id, kind in broken.items():
        league.break_with(kind, match_id=match_id, **scope)
    return broken


async def test_a_permanent_fault_is_a_dead_letter_at_once_with_its_page(
    app: Regente, operations: RoundOperations, league: League, db: DatabaseReader
) -> None:
    """Z2, Z3, Z4, Z8: one attempt, the error as JSON, the page as fetched, no row stored."""
    broken = break_each(league, FATAL)
    matches = await run_round(app)
    for match_id, kind in broken.items():
        code, shown = FATAL[kind]
        bad = matches[match_id]
        assert (kind, bad.status, bad.error_code, bad.attempt_count) == (kind, "FAILED", code, 1)
        assert league.calls[f"match {match_id}"] == 1
        (failure,) = await app.failures(bad.task_id)
        assert (failure["class"], failure["code"]) == ("fatal", code)
        assert [one["name"] for one in failure["snapshots"]] == ["page.html"], kind
        content_type, truncated, body = await app.snapshot(failure["id"], "page.html")
        assert (content_type, truncated) == ("text/html", False)
        assert shown in body.decode()
    assert {match.status for match_id, match in matches.items() if match_id not in broken} == {
        "FINISHED"
    }
    assert ((await operations.get(1)).status, (await operations.get(1)).failed) == (
        "INCOMPLETE",
        len(broken),
    )
    assert (db.count("matches"), db.count("match_teams"), db.count("teams")) == (
        4,
        8,
        8,
    )
    assert half_matches(db.connection) == []


async def test_the_error_of_a_page_with_wrong_fields_names_each_of_them(
    app: Regente, league: League
) -> None:
    """Z3, Z4: the error as JSON."""
    bad = await failed_round(app, league, "missing_field")
    (failure,) = await app.failures(bad.task_id)
    assert failure["details"]["page"] == "MatchSheet"
    (error,) = failure["details"]["errors"]
    assert (error["field"], error["value"]) == ("teams.0.name", "''")


@config(page_seconds=1.5)
async def test_a_temporary_fault_is_retried_until_it_has_passed(
    app: Regente, league: League, db: DatabaseReader
) -> None:
    """Z2: two failures, then success: three attempts, growing and varied waits, all stored."""
    broken = break_each(league, PASSING, count=2, seconds=30)
    matches = await run_round(app)
    for match_id, match in matches.items():
        expected = ("FINISHED", 3, 2, None) if match_id in broken else ("FINISHED", 1, 0, None)
        assert (match.status, match.attempt_count, match.tries, match.error_code) == expected, (
            broken.get(match_id)
        )
    rows = db.rows(
        "SELECT task_id, details ->> 'code' AS code, (details ->> 'delay_seconds')::float "
        "AS wait FROM regente.events"
        " WHERE event = 'task_retried' ORDER BY task_id, id"
    )
    assert {row["code"] for row in rows} == {
        "HTTP_503",
        "PAGE_INCOMPLETE",
        "HTTP_BROKEN",
        "HTTP_TIMEOUT",
    }
    for row, whole in zip(rows, [0.02, 0.04] * len(broken), strict=True):
        assert 0.5 * whole <= row["wait"] <= whole
    assert len({row["wait"] for row in rows}) > len(broken), "jitter"


@config(retries=3)
async def test_a_fault_that_does_not_pass_ends_as_a_dead_letter_after_three_retries(
    app: Regente, league: League
) -> None:
    """Z2, Z4: "Retry com Backoff (x3)"; the others are not kept waiting."""
    bad = await failed_round(app, league, "unavailable")
    assert (bad.status, bad.error_code, bad.tries) == ("FAILED", "HTTP_503", 4)
    failures = await app.failures(bad.task_id)
    assert [one["class"] for one in failures] == ["transient"] * 4
    assert all(one["snapshots"] for one in failures)


async def test_a_throttled_match_is_retried_without_charging_an_attempt(
    app: Regente, league: League, db: DatabaseReader
) -> None:
    """Z2, Z8: 429 with Retry-After; an unfinished match stays and is stored once it is finished."""
    broken = break_each(league, ("throttled", "scheduled", "live"), count=2, retry_after=0.05)
    matches = await run_round(app)
    for match_id in broken:
        assert (
            matches[match_id].status,
            matches[match_id].attempt_count,
            matches[match_id].tries,
        ) == ("FINISHED", 3, 0)
    waits = db.rows(
        "SELECT details ->> 'retry_after' AS s FROM regente.events WHERE event = 'task_throttled'"
    )
    assert [wait["s"] for wait in waits] == ["0.05"] * 6
    assert {match.status for match in matches.values()} == {"FINISHED"}


@config(match_seconds=7200.0, recheck_seconds=900.0)
async def test_a_future_match_is_fetched_when_it_must_be_over(
    app: Regente, operations: RoundOperations, league: League, db: DatabaseReader
) -> None:
    """Z8: not every quarter of an hour until then."""
    victim = victim_of(league)
    league.break_with("scheduled", match_id=victim, kickoff_in=86_400)
    await operations.start(LEAGUE, 12)
    async with runner_in(app):

        async def the_others() -> bool:
            return (await operations.get(1)).finished == 9 and league.calls.get(
                f"match {victim}", 0
            ) == 1

        await eventually_async(the_others)
        match = await operations.match(1, victim)

        async def waits() -> bool:
            return (await app.get(match.task_id)).status == "queued"

        await eventually_async(waits)
        match = await operations.match(1, victim)
        assert (match.status, match.error_code) == ("PENDING", "MATCH_NOT_FINISHED")
        (row,) = db.rows(
            "SELECT extract(epoch FROM run_at - now()) AS wait FROM regente.tasks WHERE id = %s",
            match.task_id,
        )
        assert 93_000 < row["wait"] <= 93_600
        assert (await operations.get(1)).status == "RUNNING"


@config(patience_seconds=3600.0)
async def test_a_match_that_never_ends_becomes_a_dead_letter(app: Regente, league: League) -> None:
    """Z4."""
    bad = await failed_round(app, league, "live", kickoff_in=-3700)
    assert (bad.status, bad.error_code) == ("FAILED", "MATCH_NEVER_FINISHED")


async def test_a_postponed_match_is_skipped_and_found_missing(
    app: Regente, operations: RoundOperations, league: League
) -> None:
    """Z5, Z8: no failure, and listed as missing."""
    bad = await failed_round(app, league, "postponed", count=1)
    assert (bad.status, (bad.reason or "").partition(":")[0]) == ("SKIPPED", "postponed")
    assert (await operations.get(1)).status == "INCOMPLETE"
    assert (await operations.retry_failed(1)).task_ids == [bad.task_id]
    await app.run(until_idle=True)
    assert (await operations.get(1)).status == "FINISHED"


@pytest.mark.parametrize(
    ("kind", "code", "attempts"),
    [
        ("layout", "LAYOUT_CHANGED", 1),
        ("wrong_count", "INVALID_DATA", 1),
        ("unavailable", "HTTP_503", 4),
    ],
)
async def test_a_round_whose_page_cannot_be_read_has_no_match_tasks(
    app: Regente,
    operations: RoundOperations,
    league: League,
    db: DatabaseReader,
    kind: str,
    code: str,
    attempts: int,
) -> None:
    """Z1, Z3, Z4: a page with nine of ten matches is refused; later the same job continues."""
    league.break_with(kind, round=12)
    assert await run_round(app) == {}
    found = await operations.get(1)
    assert (found.status, found.error_code, found.listed) == ("FAILED", code, 0)
    assert (
        db.count("tasks"),
        db.rows("SELECT attempt FROM regente.tasks")[0]["attempt"],
    ) == (
        1,
        attempts,
    )
    league.reset()
    assert (await operations.retry_failed(1)).task_ids == [found.task_id]
    await app.run(until_idle=True)
    assert ((await operations.get(1)).status, (await operations.get(1)).finished) == (
        "FINISHED",
        10,
    )


async def test_a_round_that_the_league_does_not_have(
    app: Regente, operations: RoundOperations
) -> None:
    """Z4: the league has 38."""
    assert await run_round(app, 39) == {}
    assert ((await operations.get(1)).status, (await operations.get(1)).error_code) == (
        "FAILED",
        "HTTP_404",
    )
