"""The watchdog: periodic sweeps that recover and clean up.

It runs in every runner and in every other process that watches (`regente serve`), so that tasks
are also looked after while no runner lives. The processes take turns: each sweep is done once per
interval, by one of them, and there is no leader to fail over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from regente.engine import log
from regente.engine.database import Database
from regente.engine.retention import AUDIT_DAYS, DAY_SECONDS
from regente.engine.watchdog.batches import BatchReview
from regente.engine.watchdog.expiry import ExpirySweep
from regente.engine.watchdog.lanes import LaneSweep
from regente.engine.watchdog.reaper import Reaper
from regente.engine.watchdog.retention import RetentionSweep
from regente.engine.watchdog.schedules import ScheduleSweep
from regente.engine.watchdog.stalls import StallSweep

JITTER = 0.1  # of the interval: how far the processes' questions for a turn are spread
AGAIN_SECONDS = 5.0  # at most, until a sweep that failed is tried again


@dataclass(frozen=True, slots=True)
class WatchdogConfig:
    sweep_every_seconds: float = 10.0
    batches_every_seconds: float = 10.0
    lanes_every_seconds: float = 10.0
    schedules_every_seconds: float = 10.0
    suspects_every_seconds: float = 10.0
    expiry_every_seconds: float = 300.0
    retention_every_seconds: float = 3600.0
    keep_seconds: float = 30 * DAY_SECONDS
    keep_was_set: bool = False
    audit_seconds: float = AUDIT_DAYS * DAY_SECONDS
    max_crashes: int = 3


class Sweep(Protocol):
    name: str
    every_seconds: float

    async def run_once(self) -> object:
        """Do what is due; the result is falsy when there was nothing to do."""


class Watchdog:
    """`recovered` is called with the number of tasks that a sweep has put back. Schedules fire in
    runners only: a queue without a runner must not grow by the minute."""

    def __init__(
        self,
        database: Database,
        config: WatchdogConfig,
        recovered: Callable[[int], None] = lambda _: None,
        *,
        schedules: bool = True,
    ) -> None:
        self._database = database
        self._failed: set[str] = set()
        self.sweeps: list[Sweep] = [
            Reaper(database, config.sweep_every_seconds, config.max_crashes, recovered),
            StallSweep(database, config.sweep_every_seconds, recovered),
            ExpirySweep(database, config.expiry_every_seconds),
            BatchReview(database, config.batches_every_seconds),
            LaneSweep(database, config.lanes_every_seconds),
            RetentionSweep(
                database,
                config.retention_every_seconds,
                config.keep_seconds,
                config.audit_seconds,
                was_set=config.keep_was_set,
            ),
        ]
        if schedules:
            self.sweeps.append(ScheduleSweep(database, config.schedules_every_seconds))

    def start(self) -> list[asyncio.Task[None]]:
        """Start one asyncio task for each sweep; they run until they are cancelled."""
        beginning = asyncio.Lock()
        return [
            asyncio.create_task(self._repeat(sweep, beginning), name=sweep.name)
            for sweep in self.sweeps
        ]

    async def _repeat(self, sweep: Sweep, beginning: asyncio.Lock) -> None:
        async with beginning:  # one after another: the first tasks need the database at start-up
            pause_seconds = await self._sweep_if_due(sweep)
        while True:
            await asyncio.sleep(pause_seconds)
            pause_seconds = await self._sweep_if_due(sweep)

    async def _sweep_if_due(self, sweep: Sweep) -> float:
        """Sweep, if it is due and no other process does it; how long to wait then."""
        try:
            again = sweep.name in self._failed
            due_seconds = 0.0 if again else await self._take_turn(sweep)
            if due_seconds <= 0:
                await _run(sweep)
                self._failed.discard(sweep.name)
                due_seconds = sweep.every_seconds
        except Exception as error:
            log.sweep_failed(sweep.name, error)
            self._failed.add(sweep.name)
            return min(AGAIN_SECONDS, sweep.every_seconds)
        return due_seconds + sweep.every_seconds * random.uniform(0.0, JITTER)  # noqa: S311

    async def _take_turn(self, sweep: Sweep) -> float:
        """In how many seconds the sweep is due; 0 when this process has the turn."""
        params = {"name": sweep.name, "every_seconds": sweep.every_seconds}
        [(taken, due_seconds)] = await self._database.fetch("take_turn", params)
        if taken:
            return 0.0
        in_time = due_seconds is not None and 0 < due_seconds <= sweep.every_seconds
        return float(due_seconds) if in_time else sweep.every_seconds


async def _run(sweep: Sweep) -> None:
    result = await sweep.run_once()
    if result:
        log.sweep(sweep.name, result)
