"""Runners that are killed while they work on lanes, and a target that counts.

python -m tests.engine.faults.lanes [SECONDS] [KILLS]     a minute and 10 by default
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass

from regente import Regente
from tests.engine.faults.lanes.pipelines import LIMIT, RATE
from tests.engine.faults.lanes.target import Target
from tests.support.runner_process import RunnerProcess

MODULE = "tests.engine.faults.lanes.pipelines"
RUNNERS = 5
LANES = 4
LEASE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    most: dict[str, int]
    counts: dict[str, int]
    began: list[float]
    kills: int
    left: int

    def rate(self) -> float:
        """Starts per second in the paced lane, between its first and its last."""
        return (len(self.began) - 1) / (self.began[-1] - self.began[0])


def runner(url: str, target: Target) -> RunnerProcess:
    environment = {
        "TARGET_PORT": str(target.port),
        "JOB_LOCK_TTL_MS": str(LEASE_MS),
        "JOB_HEARTBEAT_INTERVAL_MS": "1000",
    }
    return RunnerProcess(url, MODULE, environment)


async def run(url: str, *, tasks: int, paced: int, kills: int, kill_every: float) -> Outcome:
    """Enqueue tasks in each of the limited lanes and in a paced one, kill runners, wait for all."""
    dice = random.Random(1)
    async with Target(0.05) as target, Regente(url) as app:
        names = [f"limited-{n}" for n in range(LANES)]
        limited = [{"lane": names[n % LANES]} for n in range(tasks)]
        await app.enqueue_many("lanes.limited", limited)
        await app.enqueue_many("lanes.paced", [{"lane": "paced"} for _ in range(paced)])
        runners = [await asyncio.to_thread(runner, url, target) for _ in range(RUNNERS)]
        try:
            for _ in range(kills):
                await wait_until_busy(target)
                await asyncio.sleep(kill_every * dice.uniform(0.5, 1.5))
                position = dice.randrange(RUNNERS)
                await asyncio.to_thread(runners[position].close)
                runners[position] = await asyncio.to_thread(runner, url, target)
            left = await wait_until_done(app, tasks + paced)
        finally:
            for one in runners:
                await asyncio.to_thread(one.close)
        counts = {lane: len(times) for lane, times in target.began.items()}
        return Outcome(dict(target.most), counts, target.began["paced"], kills, left)


async def wait_until_busy(target: Target) -> None:
    while not any(target.now.values()):
        await asyncio.sleep(0.01)


async def wait_until_done(app: Regente, tasks: int, within_seconds: float = 120.0) -> int:
    """How many tasks are not completed."""
    deadline = time.monotonic() + within_seconds
    while True:
        left = tasks - (await app.counts())["completed"]
        if left == 0 or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.1)


def exceeded(outcome: Outcome) -> list[str]:
    return [
        f"{lane}: {most} at once"
        for lane, most in outcome.most.items()
        if lane != "paced" and most > LIMIT
    ]


__all__ = ["RATE", "Outcome", "exceeded", "run"]
