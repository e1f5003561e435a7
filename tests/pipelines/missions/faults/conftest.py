"""A fleet that records every call, an app to queue and read missions, and runners to kill."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.missions.args import MissionArgs
from regente.pipelines.missions.read_models import MissionFilter
from regente.settings import Settings
from tests.pipelines.missions.conftest import QUICK, fleet_of
from tests.pipelines.missions.faults.peers import WatchedWorker, WatchedWriter
from tests.pipelines.missions.faults.runner_processes import ForkServer, RunnerProcess
from tests.support.eventually import TIMEOUT_SECONDS, eventually_async

FIRST_DAY = date(2020, 1, 1)
LEASE_SECONDS = 2.0
SWEEP_SECONDS = 0.2
SHORT_LEASE: dict[str, Any] = {"lock_ttl_ms": int(LEASE_SECONDS * 1000)}
LIFE = {"lock_ttl_ms": 60_000, "heartbeat_interval_ms": 200, "sweep_seconds": SWEEP_SECONDS}


def config(**changes: Any) -> dict[str, str]:
    """The environment of a runner: quick, with a lease that no busy machine lets run out."""
    return {
        f"REGENTE_{name.upper()}": str(value) for name, value in (QUICK | LIFE | changes).items()
    }


def missions_on(count: int, first: int = 0) -> list[MissionArgs]:
    """One mission a day: peers tell missions apart by the day."""
    days = [FIRST_DAY + timedelta(days=first + number) for number in range(count)]
    return [
        MissionArgs(date_start=day, date_end=day, media_type="video", languages=("pt",))
        for day in days
    ]


@dataclass
class Environment:
    """The app of the test, its fleet, and the runner processes that it starts."""

    app: Regente
    forkserver: ForkServer
    data_dir: Path
    workers: list[WatchedWorker] = field(default_factory=list)
    writer: WatchedWriter = field(default_factory=WatchedWriter)
    started: list[RunnerProcess] = field(default_factory=list)

    @property
    def worker(self) -> WatchedWorker:
        return self.workers[0]

    def runner(self, **env: Any) -> RunnerProcess:
        """A new process; capital names are environment variables, others are settings."""
        plain = {name: value for name, value in env.items() if name.isupper()}
        changed = {name: value for name, value in env.items() if not name.isupper()}
        given = {**config(**changed), "REGENTE_DATA_DIR": str(self.data_dir), **plain}
        self.started.append(self.forkserver.start(self.app.database_url, given))
        return self.started[-1]

    async def ended(self, process: RunnerProcess, within_seconds: float = 30.0) -> int:
        """Its exit code. The peers live in this loop: it must go on while we wait."""
        return await asyncio.to_thread(process.wait, within_seconds)

    async def statuses(self) -> list[str]:
        return [mission.status for mission in reversed(await self.app.missions.find(limit=1000))]

    async def all_ended(self, within_seconds: float = 60.0) -> None:
        """Waits until all missions have ended, each at most so long after the one before it."""
        left = await self.unfinished()
        while left:
            fewer = partial(self._fewer_unfinished, left)
            try:
                await eventually_async(fewer, within_seconds=within_seconds)
            except AssertionError:
                raise AssertionError(await self.evidence()) from None
            left = await self.unfinished()

    async def unfinished(self) -> int:
        ended = ("completed", "failed", "canceled")
        return sum(status not in ended for status in await self.statuses())

    async def _fewer_unfinished(self, than: int) -> bool:
        return await self.unfinished() < than

    async def at_rest(self, within_seconds: float = TIMEOUT_SECONDS) -> None:
        """Waits until the orchestrator is closed, drivers are gone, workers idle, proxies free."""

        async def resting() -> bool:
            drivers = await self.app.counts("workers")
            states = {
                member.status
                for member in await self.app.fleet.members()
                if member.kind != "writer"
            }
            closed = (await self.app.missions.orchestrator()).state == "closed"
            return (
                closed
                and drivers["queued"] + drivers["running"] == 0
                and states <= {"idle", "free"}
            )

        try:
            await eventually_async(resting, within_seconds=within_seconds)
        except AssertionError:
            raise AssertionError(await self.evidence()) from None
        assert [
            worker.name for worker in self.workers if worker.span is not None or worker.running
        ] == []

    async def evidence(self) -> str:
        members = [
            f"{m.kind} {m.name} {m.status} {m.details}" for m in await self.app.fleet.members()
        ]
        missions = [
            str(mission)
            for mission in await self.app.missions.find(
                MissionFilter(statuses=["queued", "running", "failed"]), limit=5
            )
        ]
        state = await self.app.missions.orchestrator()
        said = [process.said()[-3000:] for process in self.started[-2:]]
        return "\n".join([str(state), *members, *missions, *said])

    def expire_leases(self) -> None:
        """Moves the leases' end into the past instead of waiting."""
        with psycopg.connect(self.app.database_url, autocommit=True) as connection:
            connection.execute(
                "UPDATE regente.runners SET lease_until = regente.clock() - interval '1 "
                "second' WHERE status < 'stopped'"
            )


@pytest.fixture(scope="session")
def forkserver() -> Iterator[ForkServer]:
    opened = ForkServer()
    yield opened
    opened.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, **QUICK)  # type: ignore[arg-type]


@pytest.fixture
async def app(database_url: str, registry: Registry, settings: Settings) -> AsyncIterator[Regente]:
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        yield opened


@pytest.fixture
async def env(app: Regente, forkserver: ForkServer, tmp_path: Path) -> AsyncIterator[Environment]:
    """One worker, one writer, two proxies."""
    async with environment_with(app, forkserver, tmp_path, workers=1, proxies=2) as env:
        yield env


@contextlib.asynccontextmanager
async def environment_with(
    app: Regente, forkserver: ForkServer, data_dir: Path, *, workers: int, proxies: int
) -> AsyncIterator[Environment]:
    env = Environment(app, forkserver, data_dir, [WatchedWorker() for _ in range(workers)])
    async with fleet_of(app, *env.workers, env.writer, proxies=proxies):
        try:
            yield env
        finally:
            for process in env.started:
                await asyncio.to_thread(process.kill)
