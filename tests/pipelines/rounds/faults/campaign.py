"""Rounds with faults while their runners are killed at random moments, all of it from one seed.

    python -m tests.pipelines.rounds.faults.campaign --seed 1 --rounds 20 --kills 40

prints what happened and ends with 1 when a half match was ever seen, or a match is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.rounds.operations import RoundOperations
from regente.pipelines.rounds.standins.league import League
from regente.postgres.embedded import EmbeddedPostgres
from regente.services.sandbox import Sandbox
from tests.pipelines.rounds.forked_runner import forked_runner
from tests.pipelines.rounds.match_checker import ContinuousCheck
from tests.support.eventually import eventually_async

LEAGUE = "brasileirao-2025"
PASSING = ("unavailable", "drip", "throttled", "garbage", "truncated", "cut_off", "live")
FATAL = ("not_found", "layout", "missing_field", "wrong_type", "wrong_count")
EXPIRE = (
    "UPDATE regente.runners SET lease_until = regente.clock() - interval '1 second' WHERE "
    "status < 'stopped'"
)


@dataclass(slots=True)
class CampaignReport:
    """What the campaign did, and what is left undone."""

    seed: int
    kills: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    fatal: int = 0
    unfinished: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Campaign:
    seed: int
    rounds: int
    kills: int

    async def run(
        self,
        app: Regente,
        operations: RoundOperations,
        sandbox: Sandbox,
        league: League,
        database_url: str,
        folder: Path,
    ) -> CampaignReport:
        dice = random.Random(self.seed)
        report = CampaignReport(self.seed)
        self._break(league, dice, report)
        rounds = [await operations.start(LEAGUE, number) for number in range(1, self.rounds + 1)]
        for number in range(self.kills):
            if await asyncio.to_thread(
                _killed, database_url, sandbox.url, folder / f"runner-{number}", dice, league
            ):
                report.kills += 1
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute(EXPIRE)
        await self._to_the_end(
            database_url, sandbox, folder, operations, [one.id for one in rounds]
        )
        for one in rounds:
            for match in await operations.matches(one.id):
                fatal = report.faults.get(match.match_id) in FATAL
                if match.status != ("FAILED" if fatal else "FINISHED"):
                    report.unfinished.append(
                        f"{match.match_id} is {match.status}: {match.error_code}"
                    )
        return report

    def _break(self, league: League, dice: random.Random, report: CampaignReport) -> None:
        for number in range(1, self.rounds + 1):
            for match in league.calendar.round(LEAGUE, number):
                draw = dice.random()
                if draw < 0.1:
                    report.faults[match.id] = kind = dice.choice(FATAL)
                    report.fatal += 1
                    league.break_with(kind, match_id=match.id)
                elif draw < 0.5:
                    report.faults[match.id] = kind = dice.choice(PASSING)
                    league.break_with(
                        kind,
                        match_id=match.id,
                        count=dice.randint(1, 2),
                        retry_after=0.05,
                        seconds=0.3,
                    )

    async def _to_the_end(
        self, url: str, sandbox: Sandbox, folder: Path, operations: RoundOperations, ids: list[int]
    ) -> None:
        with forked_runner(url, sandbox.url, folder / "last"):
            for one in ids:
                await eventually_async(
                    partial(_has_ended, operations, one), within_seconds=60 + 5 * self.rounds
                )


async def _has_ended(operations: RoundOperations, round_id: int) -> bool:
    return (await operations.get(round_id)).status in ("FINISHED", "INCOMPLETE")


def _killed(url: str, sandbox_url: str, log: Path, dice: random.Random, league: League) -> bool:
    """Kills a runner a moment after it has fetched so many pages."""
    before, pages = sum(league.calls.values()), dice.randint(1, 12)
    late_seconds = dice.random() * 0.05
    with forked_runner(url, sandbox_url, log) as runner:
        runner.started()
        waited = 0.0
        while sum(league.calls.values()) - before < pages and waited < 3.0 and runner.alive:
            waited += _nap(0.002)
        _nap(late_seconds)
        alive = runner.alive
        runner.kill()
        return alive


def _nap(seconds: float) -> float:
    """A random delay from the seed, not a wait for a condition."""
    time.sleep(seconds)
    return seconds


async def main(seed: int, rounds: int, kills: int) -> int:
    with tempfile.TemporaryDirectory(prefix="regente-rounds-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)  # the server of a root user runs as another one
        folder = Path(name)
        server = await asyncio.to_thread(EmbeddedPostgres.acquire, folder / "data")
        try:
            async with (
                Sandbox(proxies=0, seed=seed, standins=[League(seed)]) as sandbox,
                Regente(server.url, pipelines=Registry(), components=["rounds"]) as app,
            ):
                league = next(one for one in sandbox.standins if isinstance(one, League))
                with ContinuousCheck(server.url) as watch:
                    report = await Campaign(seed, rounds, kills).run(
                        app, RoundOperations(app), sandbox, league, server.url, folder
                    )
        finally:
            await asyncio.to_thread(server.release)
    sys.stdout.write(
        f"seed {seed}: {rounds} rounds, {report.kills} runners killed, {len(report.faults)} "
        "matches with faults, "
    )
    sys.stdout.write(
        f"{report.fatal} dead letters, {watch.looks} looks, {len(watch.found)} half matches, "
        f"left {report.unfinished}\n"
    )
    return 1 if watch.found or report.unfinished else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kills", type=int, default=20)
    asked = parser.parse_args()
    sys.exit(asyncio.run(main(asked.seed, asked.rounds, asked.kills)))
