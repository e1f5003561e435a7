"""The watchdog: periodic sweeps that recover and clean up. It runs in every runner, so there is no
leader to fail over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from regente.engine import log
from regente.engine.database import Database
from regente.engine.retention import DAY_SECONDS
from regente.engine.watchdog.batches import BatchReview
from regente.engine.watchdog.expiry import ExpirySweep
from regente.engine.watchdog.reaper import Reaper
from regente.engine.watchdog.retention import RetentionSweep
from regente.engine.watchdog.schedules import ScheduleSweep
from regente.engine.watchdog.stalls import StallSweep


@dataclass(frozen=True, slots=True)
class WatchdogConfig:
    sweep_every_seconds: float = 60.0
    batches_every_seconds: float = 10.0
    schedules_every_seconds: float = 10.0
    suspects_every_seconds: float = 10.0
    expiry_every_seconds: float = 300.0
    retention_every_seconds: float = 3600.0
    keep_seconds: float = 30 * DAY_SECONDS
    max_crashes: int = 3


class Sweep(Protocol):
    name: str
    every_seconds: float

    async def run_once(self) -> object:
        """Do what is due; the result is falsy when there was nothing to do."""


class Watchdog:
    def __init__(
        self, database: Database, config: WatchdogConfig, recovered: Callable[[int], None]
    ) -> None:
        self.sweeps: list[Sweep] = [
            Reaper(database, config.sweep_every_seconds, config.max_crashes, recovered),
            StallSweep(database, config.sweep_every_seconds, recovered),
            ExpirySweep(database, config.expiry_every_seconds),
            ScheduleSweep(database, config.schedules_every_seconds),
            BatchReview(database, config.batches_every_seconds),
            RetentionSweep(database, config.retention_every_seconds, config.keep_seconds),
        ]

    def start(self) -> list[asyncio.Task[None]]:
        """Start one asyncio task for each sweep; they run until they are cancelled."""
        turn = asyncio.Lock()
        return [asyncio.create_task(_repeat(sweep, turn), name=sweep.name) for sweep in self.sweeps]


async def _repeat(sweep: Sweep, turn: asyncio.Lock) -> None:
    """Run the sweep once when it is its turn, then periodically. The turns leave the database to
    the first tasks at start-up."""
    async with turn:
        await _run(sweep)
    while True:
        # The jitter spreads the sweeps of runners that started together.
        await asyncio.sleep(sweep.every_seconds * random.uniform(0.9, 1.0))  # noqa: S311 - not a secret
        await _run(sweep)


async def _run(sweep: Sweep) -> None:
    try:
        result = await sweep.run_once()
        if result:
            log.sweep(sweep.name, result)
    except Exception as error:
        log.sweep_failed(sweep.name, error)
