"""`regente rounds …`, with a runner as another process."""

from __future__ import annotations

from regente import Regente
from regente.pipelines.rounds.standins.league import League
from tests.acceptance.conftest import Cli, cli, plain_logs
from tests.pipelines.rounds.conftest import LEAGUE
from tests.support.running import runner_in

__all__ = ["cli", "plain_logs"]


async def test_a_round_on_the_command_line(app: Regente, league: League, cli: Cli) -> None:
    """Z5: start and follow, the matches, one match, retry of the missing ones."""
    victim = league.calendar.round(LEAGUE, 12)[2].id
    assert "No rounds yet" in await cli.text("rounds", "list")
    league.break_with("layout", match_id=victim)
    async with runner_in(app):
        followed = await cli("rounds", "start", LEAGUE, "12", "--follow")
        assert followed.code == 1, followed
        assert "INCOMPLETE" in followed.out
        assert "9 of 10 stored" in followed.out
        assert "LAYOUT_CHANGED" in followed.out
        (listed,) = await cli.json("rounds", "list", "--league", LEAGUE)
        assert (listed["status"], listed["finished"], listed["failed"]) == ("INCOMPLETE", 9, 1)
        shown = await cli.json("rounds", "show", "1")
        assert {match["status"] for match in shown["matches"]} == {"FINISHED", "FAILED"}
        one = await cli.json("rounds", "show", "1", "--match", victim)
        assert (one["match"]["error_code"], one["failures"][0]["code"]) == (
            "LAYOUT_CHANGED",
            "LAYOUT_CHANGED",
        )
        league.reset()
        again = await cli("rounds", "retry-failed", "1", "--follow")
        assert again.code == 0, again
    truth = next(match for match in league.calendar.round(LEAGUE, 12) if match.id == victim)
    text = await cli.text("rounds", "show", "1", "--match", victim)
    assert f"{truth.home[1]} {truth.goals[0]} x {truth.goals[1]} {truth.away[1]}" in text
    assert "Nothing is missing" in await cli.text("rounds", "retry-failed")
    assert "FINISHED" in await cli.text("rounds", "list")
    assert (await cli.json("rounds", "start", LEAGUE, "12"))["status"] == "FINISHED"


async def test_mistakes_are_reported_in_one_line(cli: Cli) -> None:
    """Bad input gets a clear error and an exit code."""
    wrong = await cli("rounds", "start", "Brasileirão", "12", "--json")
    assert (wrong.code, wrong.error["code"]) == (2, "INVALID_INPUT")
    missing = await cli("rounds", "show", "7", "--json")
    assert (missing.code, missing.error) == (
        1,
        {"code": "NOT_FOUND", "message": "there is no round 7"},
    )
