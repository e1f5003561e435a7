"""What a campaign breaks: three runner processes and a PostgreSQL server; the fault injection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from tests.engine.faults.chaos.plan import (
    HEARTBEAT_SECONDS,
    LEASE_SECONDS,
    RUNNERS,
    SWEEP_SECONDS,
    Fault,
)
from tests.support.eventually import eventually, eventually_async
from tests.support.replication import replicated
from tests.support.runner_process import RunnerProcess
from tests.support.skewed_clock import skewed_environment

CONFIG = {
    "JOB_LOCK_TTL_MS": str(int(LEASE_SECONDS * 1000)),
    "JOB_HEARTBEAT_INTERVAL_MS": str(int(HEARTBEAT_SECONDS * 1000)),
    "REGENTE_SWEEP_SECONDS": str(SWEEP_SECONDS),
    "REGENTE_BATCHES_SECONDS": "1",
    "REGENTE_DRAIN_SECONDS": "1",
    "REGENTE_CONCURRENCY": "60",
    "REGENTE_DATABASE_POOL_SIZE": "6",
}
SKEWS_MINUTES = (10, -10, 0)
PROBE_SECONDS = 3.0
# A commit that waits for the synchronous standby, and changes nothing.
PROBE = "SELECT pg_logical_emit_message(true, 'probe', '')"


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


Action = Callable[[Fault], Coroutine[Any, Any, None]]


class Environment:
    """The runners of a campaign and their faults; a subclass has a server, with faults of its
    own."""

    def __init__(self, folder: Path, url: str, *, skew: bool = False) -> None:
        self.folder = folder
        self.url = url
        self.external = folder / "external"
        self.record = Record()
        self._skew = skew
        self._runners: list[RunnerProcess] = []
        self._waiting: set[asyncio.Task[None]] = set()
        self._stopping: set[int] = set()  # runners that are being stopped
        self._supervision: asyncio.Task[None] | None = None

    async def start_runners(self) -> None:
        """Returns when all runners are registered."""
        self._runners = [self._start(number) for number in range(RUNNERS)]
        await self._until_registered()
        self._supervision = asyncio.create_task(self._supervise())

    async def _supervise(self) -> None:
        """What a service manager does: a runner that found no database when it started is started
        again."""
        while True:
            for number in range(len(self._runners)):
                if number not in self._stopping:
                    self._revive(number)
            await asyncio.sleep(1.0)

    def _revive(self, number: int) -> bool:
        """True when the runner had ended."""
        runner = self._runners[number]
        if runner.exit_code is None:
            return False
        assert "DatabaseUnavailable" in runner.said(), runner.said()
        runner.close()
        self._runners[number] = self._start(number)
        return True

    async def _until_registered(self) -> None:
        """Waits for registration: a runner that has only just started ignores SIGTERM."""
        with self.connected() as connection:
            for number in range(len(self._runners)):
                at_work = partial(self._is_at_work, connection, number)
                await asyncio.to_thread(eventually, at_work, within_seconds=30)

    def _is_at_work(self, connection: psycopg.Connection[tuple[int]], number: int) -> bool:
        """Whether the runner is registered."""
        return not self._revive(number) and _is_registered(connection, self._runners[number])

    def _start(self, number: int) -> RunnerProcess:
        environment = {**CONFIG, "EXTERNAL_SINK": str(self.external)}
        if self._skew:
            environment |= _skewed(SKEWS_MINUTES[number])
        return RunnerProcess(self.url, "tests.engine.faults.chaos.workload", environment)

    async def inflict(self, fault: Fault) -> None:
        """Starts the fault and returns at once; the fault's end is reached by `mended`."""
        self._waiting.add(asyncio.create_task(self.actions()[fault.kind](fault)))

    def actions(self) -> dict[str, Action]:
        """The faults that can be injected, by their kind."""
        return {
            "kill runner": self._kill_runner,
            "pause runner": self._pause_runner,
            "deploy runner": self._deploy_runner,
        }

    async def mended(self) -> None:
        """Returns when all faults are over; an error in one of them is raised here."""
        while self._waiting:
            await asyncio.gather(*(ended := self._waiting.copy()))
            self._waiting -= ended

    async def _kill_runner(self, fault: Fault) -> None:
        victim = self._runners[fault.runner]
        self._note_death(victim, fault.kind)
        self._stopping.add(fault.runner)
        victim.close()
        await asyncio.sleep(fault.seconds)
        self._runners[fault.runner] = self._start(fault.runner)
        self._stopping.discard(fault.runner)

    async def _pause_runner(self, fault: Fault) -> None:
        zombie = self._runners[fault.runner]
        self._note_death(zombie, fault.kind)
        zombie.send(signal.SIGSTOP)
        await asyncio.sleep(fault.seconds)
        zombie.send(signal.SIGCONT)

    async def _deploy_runner(self, fault: Fault) -> None:
        """SIGTERM: the runner drains, hands back the rest, and the next version starts."""
        self._stopping.add(fault.runner)
        old = self._runners[fault.runner]
        old.send(signal.SIGTERM)
        code = await asyncio.to_thread(old.wait, 60)
        self.record.log.append(f"deployed: exit {code}, {old.said().strip().splitlines()[-1:]}")
        old.close()
        self._runners[fault.runner] = self._start(fault.runner)
        self._stopping.discard(fault.runner)

    async def until_back(self, began: float) -> None:
        await eventually_async(self.answers)
        self.record.outages.append((began, time.time()))

    async def answers(self) -> bool:
        """Whether a commit gets through, also to the synchronous standby."""
        with contextlib.suppress(psycopg.Error, TimeoutError):
            async with (
                asyncio.timeout(PROBE_SECONDS),
                await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection,
            ):
                await connection.execute(PROBE)
                return True
        return False

    def _note_death(self, runner: RunnerProcess, kind: str) -> None:
        self.record.deaths.append(Death(runner.pid, time.time(), kind))

    @contextlib.contextmanager
    def connected(self) -> Iterator[psycopg.Connection[tuple[int]]]:
        with psycopg.connect(
            self.url, autocommit=True, application_name="chaos", connect_timeout=5
        ) as connection:
            yield connection

    async def stop_runners(self, within_seconds: float = 30.0) -> list[int]:
        """Drains all runners; their exit codes."""
        if self._supervision is not None:
            self._supervision.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervision
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
        shutil.rmtree(self.folder, ignore_errors=True)


class TwoServers(Environment):
    """A primary and its synchronous standby; clients know the addresses of both. Faults of the
    servers come one after the other: each finds a primary with a standby."""

    def __init__(self, folder: Path, *, skew: bool = False) -> None:
        self._servers = contextlib.ExitStack()
        self._pair = self._servers.enter_context(replicated(synchronous=True))
        self._one_at_a_time = asyncio.Lock()
        url = make_conninfo(self._pair.url, target_session_attrs="read-write")
        super().__init__(folder, url, skew=skew)

    def actions(self) -> dict[str, Action]:
        return {
            **super().actions(),
            "end backend": self._end_backend,
            "kill backend": self._in_turn(self._kill_backend),
            "kill postmaster": self._in_turn(self._kill_postmaster),
            "fail over": self._in_turn(self._fail_over),
        }

    def _in_turn(self, action: Action) -> Action:
        async def acted(fault: Fault) -> None:
            async with self._one_at_a_time:
                await action(fault)

        return acted

    async def _end_backend(self, fault: Fault) -> None:
        with contextlib.suppress(psycopg.OperationalError), self.connected() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(%s)", (self._backend(connection, fault),)
            )

    async def _kill_backend(self, fault: Fault) -> None:
        """Kills a backend; PostgreSQL then restarts all of them (crash recovery)."""
        began = time.time()
        with self.connected() as connection:
            victim = self._backend(connection, fault)
        os.kill(victim, signal.SIGKILL)
        await self.until_back(began)

    async def _kill_postmaster(self, fault: Fault) -> None:
        began = time.time()
        await asyncio.to_thread(self._pair.kill_primary)
        await asyncio.sleep(fault.seconds)
        await asyncio.to_thread(self._pair.primary.start)
        await self.until_back(began)

    async def _fail_over(self, fault: Fault) -> None:
        """The primary dies, the standby takes over, and the dead server becomes its standby."""
        began = time.time()
        await asyncio.to_thread(self._pair.kill_primary)
        await asyncio.sleep(fault.seconds)
        await asyncio.to_thread(self._pair.promote)
        await self.until_back(began)
        self.record.log.append(
            f"fail over to {self._pair.primary.name}: written again after "
            f"{time.time() - began:.1f} s"
        )
        await asyncio.to_thread(self._pair.attach)

    def _backend(self, connection: psycopg.Connection[Any], fault: Fault) -> int:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'regente%' AND pid "
            "<> pg_backend_pid() ORDER BY pid"
        ).fetchall()
        return int(found[fault.pick % len(found)][0])

    def close(self) -> None:
        super().close()
        self._servers.close()


def _skewed(minutes: int) -> dict[str, str]:
    environment = skewed_environment(minutes)
    if environment is None:
        raise SystemExit("--skew needs libfaketime: apt-get install libfaketime")
    return environment


def _is_registered(connection: psycopg.Connection[tuple[int]], runner: RunnerProcess) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM regente.runners WHERE pid = %s AND status = 'running'", (runner.pid,)
    )
    return found.fetchone() != (0,)
