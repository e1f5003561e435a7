"""`retry-failed` runs the missing matches, and no others."""

from __future__ import annotations

from regente import Regente
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.standins.league import League
from tests.pipelines.rounds.conftest import LEAGUE, DatabaseReader, run_round
from tests.pipelines.rounds.match_checker import half_matches


async def test_only_failed_matches_run_again(
    app: Regente, operations: RoundOperations, league: League, db: DatabaseReader
) -> None:
    """Z5: three failed matches, by code and all; the seven others are not fetched again."""
    played = [match.id for match in league.calendar.round(LEAGUE, 12)]
    league.break_with("not_found", match_id=played[0])
    league.break_with("layout", match_id=played[1])
    league.break_with("layout", match_id=played[2])
    matches = await run_round(app)
    league.reset()
    by_code = await operations.retry_failed(1, codes=["HTTP_404"])
    assert (by_code.selected, by_code.task_ids) == (1, [matches[played[0]].task_id])
    await app.run(until_idle=True)
    assert league.calls == {f"match {played[0]}": 1}
    rest = await operations.retry_failed()
    assert set(rest.task_ids) == {matches[played[1]].task_id, matches[played[2]].task_id}
    await app.run(until_idle=True)
    assert league.calls == {f"match {match_id}": 1 for match_id in played[:3]}
    assert (await operations.get(1)).status == "FINISHED"
    nothing = await operations.retry_failed()
    assert (nothing.selected, nothing.task_ids) == (0, [])
    assert half_matches(db.connection) == []


async def test_a_match_that_fails_again_keeps_both_failures(
    app: Regente, operations: RoundOperations, league: League
) -> None:
    """Z4, Z5: an operator's retry resets the tries."""
    victim = league.calendar.round(LEAGUE, 12)[0].id
    league.break_with("layout", match_id=victim)
    await run_round(app)
    await operations.retry_failed(1)
    await app.run(until_idle=True)
    detail = await operations.match(1, victim)
    failures = await app.failures(detail.task_id)
    assert (detail.status, [one["code"] for one in failures]) == (
        "FAILED",
        ["LAYOUT_CHANGED"] * 2,
    )


async def test_matches_that_are_not_in_the_database_are_found_although_their_tasks_are_gone(
    app: Regente, operations: RoundOperations, league: League, db: DatabaseReader
) -> None:
    """Z5: missing means not stored, whether its task was deleted, canceled or done."""
    await run_round(app)
    played = [match.id for match in league.calendar.round(LEAGUE, 12)]
    db.rows("DELETE FROM regente.matches WHERE match_id = ANY (%s) RETURNING id", played[:2])
    db.rows("DELETE FROM regente.tasks WHERE args ->> 'match_id' = %s RETURNING id", played[1])
    assert ((await operations.get(1)).status, (await operations.get(1)).missing) == (
        "INCOMPLETE",
        2,
    )
    league.reset()
    done = await operations.retry_failed(1)
    assert (done.selected, len(done.task_ids)) == (2, 2)
    await app.run(until_idle=True)
    assert league.calls == {f"match {match_id}": 1 for match_id in played[:2]}
    assert ((await operations.get(1)).status, db.count("matches")) == ("FINISHED", 10)
    assert [match.match_id for match in await operations.matches(1)] == played


async def test_canceled_matches_are_missing_too(
    app: Regente, operations: RoundOperations, db: DatabaseReader
) -> None:
    """Z5: a round that was canceled halfway."""
    await app.pause("matches")
    started = await operations.start(LEAGUE, 12)
    await app.run(["rounds"], until_idle=True)
    assert started.batch_id is not None
    await app.cancel_batch(started.batch_id)
    assert (await operations.get(1)).canceled == 10
    await app.resume("matches")
    assert len((await operations.retry_failed(1)).task_ids) == 10
    await app.run(until_idle=True)
    assert ((await operations.get(1)).status, db.count("matches")) == ("FINISHED", 10)
