"""What a campaign breaks: a PostgreSQL server and three runner processes; the fault injection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg

from regente.postgres.embedded import EmbeddedPostgres
from tests.engine.faults.chaos.plan import (
    HEARTBEAT_SECONDS,
    LEASE_SECONDS,
    RUNNERS,
    SWEEP_SECONDS,
    Fault,
)
from tests.support.eventually import eventually, eventually_async
from tests.support.runner_process import RunnerProcess

CONFIG = {
    "JOB_LOCK_TTL_MS": str(int(LEASE_SECONDS * 1000)),
    "JOB_HEARTBEAT_INTERVAL_MS": str(int(HEARTBEAT_SECONDS * 1000)),
    "REGENTE_SWEEP_SECONDS": str(SWEEP_SECONDS),
    "REGENTE_BATCHES_SECONDS": "1",
    "REGENTE_DRAIN_SECONDS": "1",
    "REGENTE_CONCURRENCY": "60",
    "REGENTE_DATABASE_POOL_SIZE": "6",
}
SKEWS = ("+10m", "-10m", "+0")


@dataclass(frozen=True, slots=True)
class Death:
    """A runner that stopped working at a known time: killed or paused."""

    pid: int
    at: float  # by the wall clock, which is the database's too: it is the same machine
    kind: str


@dataclass(slots=True)
class Record:
    """What was done to the runners and the server, for the checker."""

    deaths: list[Death] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    most_connections: int = 0


class Environment:
    def __init__(self, folder: Path, *, skew: bool = False) -> None:
        self.folder = folder
        self.external = folder / "external"
        self.record = Record()
        self._skew = skew
        self._server = EmbeddedPostgres.acquire(folder / "data")
        self.url = self._server.url
        self._runners: list[RunnerProcess] = []
        self._waiting: set[asyncio.Task[None]] = set()

    async def start_runners(self) -> None:
        """Returns when all runners are registered."""
        self._runners = [self._start(number) for number in range(RUNNERS)]
        await self._until_registered()

    async def _until_registered(self) -> None:
        """Waits for registration: a runner that has only just started ignores SIGTERM."""
        with self._connected() as connection:
            for number in range(len(self._runners)):
                at_work = partial(self._is_at_work, connection, number)
                await asyncio.to_thread(eventually, at_work, within_seconds=30)

    def _is_at_work(self, connection: psycopg.Connection[tuple[int]], number: int) -> bool:
        """Whether the runner is registered; one that met no database is restarted."""
        runner = self._runners[number]
        if runner.exit_code is not None:
            assert "DatabaseUnavailable" in runner.said(), runner.said()
            runner.close()
            self._runners[number] = self._start(number)
            return False
        return _is_registered(connection, runner)

    def _start(self, number: int) -> RunnerProcess:
        environment = {**CONFIG, "EXTERNAL_SINK": str(self.external)}
        if self._skew:
            environment |= {"FAKETIME": SKEWS[number], **_faketime()}
        return RunnerProcess(self.url, "tests.engine.faults.chaos.workload", environment)

    async def inflict(self, fault: Fault) -> None:
        """Starts the fault and returns at once; the fault's end is reached by `mended`."""
        action = {
            "kill runner": self._kill_runner,
            "pause runner": self._pause_runner,
            "deploy runner": self._deploy_runner,
            "end backend": self._end_backend,
            "kill backend": self._kill_backend,
            "kill postmaster": self._kill_postmaster,
        }[fault.kind]
        task = asyncio.create_task(action(fault))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def mended(self) -> None:
        while self._waiting:
            await asyncio.gather(*self._waiting)

    async def _kill_runner(self, fault: Fault) -> None:
        victim = self._runners[fault.runner]
        self._note_death(victim, fault.kind)
        victim.close()
        await asyncio.sleep(fault.seconds)
        self._runners[fault.runner] = self._start(fault.runner)

    async def _pause_runner(self, fault: Fault) -> None:
        zombie = self._runners[fault.runner]
        self._note_death(zombie, fault.kind)
        zombie.send(signal.SIGSTOP)
        await asyncio.sleep(fault.seconds)
        zombie.send(signal.SIGCONT)

    async def _deploy_runner(self, fault: Fault) -> None:
        """SIGTERM: the runner drains, hands back the rest, and the next version starts."""
        old = self._runners[fault.runner]
        old.send(signal.SIGTERM)
        code = await asyncio.to_thread(old.wait, 60)
        self.record.log.append(f"deployed: exit {code}, {old.said().strip().splitlines()[-1:]}")
        old.close()
        self._runners[fault.runner] = self._start(fault.runner)

    async def _end_backend(self, fault: Fault) -> None:
        with self._connected() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(%s)", (self._backend(connection, fault),)
            )

    async def _kill_backend(self, fault: Fault) -> None:
        """Kills a backend; PostgreSQL then restarts all of them (crash recovery)."""
        with self._connected() as connection:
            victim = self._backend(connection, fault)
        os.kill(victim, signal.SIGKILL)
        await self._until_back(time.time())

    async def _kill_postmaster(self, fault: Fault) -> None:
        postmaster = self._server.postmaster_pid
        assert postmaster is not None
        began = time.time()
        os.kill(postmaster, signal.SIGKILL)
        await asyncio.sleep(fault.seconds)
        await asyncio.to_thread(self._server.ensure_running)
        await self._until_back(began)

    async def _until_back(self, began: float) -> None:
        await eventually_async(self._answers)
        self.record.outages.append((began, time.time()))

    async def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), self._connected() as connection:
            return connection.execute("SELECT 1").fetchone() is not None
        return False

    def _backend(self, connection: psycopg.Connection[tuple[int]], fault: Fault) -> int:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'regente' AND pid "
            "<> pg_backend_pid() ORDER BY pid"
        ).fetchall()
        return found[fault.pick % len(found)][0]

    def _note_death(self, runner: RunnerProcess, kind: str) -> None:
        self.record.deaths.append(Death(runner.pid, time.time(), kind))

    @contextlib.contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[tuple[int]]]:
        with psycopg.connect(
            self.url, autocommit=True, application_name="chaos", connect_timeout=5
        ) as connection:
            yield connection

    async def stop_runners(self, within_seconds: float = 30.0) -> list[int]:
        """Drains all runners; their exit codes."""
        await self._until_registered()
        for runner in self._runners:
            runner.send(signal.SIGTERM)
        codes = [await asyncio.to_thread(runner.wait, within_seconds) for runner in self._runners]
        for number, runner in enumerate(self._runners):
            (self.folder / f"runner-{number}.log").write_text(runner.said())
        return codes

    def close(self) -> None:
        for runner in self._runners:
            runner.close()
        self._server.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def _faketime() -> dict[str, str]:
    """Preloads libfaketime: the program `faketime` would receive the signals for the runner."""
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not libraries:
        raise SystemExit("--skew needs libfaketime: apt-get install faketime")
    return {"LD_PRELOAD": str(libraries[0]), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def _is_registered(connection: psycopg.Connection[tuple[int]], runner: RunnerProcess) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM regente.runners WHERE pid = %s AND status = 'running'", (runner.pid,)
    )
    return found.fetchone() != (0,)
