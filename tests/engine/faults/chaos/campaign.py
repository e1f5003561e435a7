"""One campaign: enqueue tasks, inject the planned faults, wait for the end, run the checker."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from regente import DatabaseUnavailable, Regente
from tests.engine.faults.chaos.checker import STATEMENT_SECONDS, Checker, Finding
from tests.engine.faults.chaos.environment import Environment
from tests.engine.faults.chaos.plan import LEASE_SECONDS, SWEEP_SECONDS, Plan
from tests.engine.faults.chaos.workload import (
    LONGEST_BACKOFF_SECONDS,
    LONGEST_TASK_SECONDS,
    draw_tasks,
)
from tests.support.eventually import eventually_async
from tests.support.sinks import ExternalSink, create_sink

FEED_EVERY_SECONDS = 0.25
BATCHES = 5
POLL_SECONDS = 5.0  # a runner that sleeps looks again after this, hint or no hint
TIMEOUT_SECONDS = 180.0

Say = Callable[[str], None]


def new_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="regente-chaos-"))
    folder.chmod(0o755)  # the server of a root user runs as another one
    return folder


class Campaign:
    def __init__(self, plan: Plan, say: Say, environment: Environment) -> None:
        """The environment is closed at the end of the run."""
        self.plan = plan
        self._say = say
        self._environment = environment
        self._drawn = draw_tasks(plan.seed, plan.tasks)
        self._repeated = 0
        self._fed = 0

    async def run(self) -> list[Finding]:
        try:
            return await self._run()
        finally:
            self._environment.close()

    async def _run(self) -> list[Finding]:
        async with Regente(self._environment.url) as app:
            with psycopg.connect(self._environment.url, autocommit=True) as connection:
                create_sink(connection)
            await self._environment.start_runners()
            began = time.monotonic()
            await asyncio.gather(self._feed(app, began), self._break(began), self._watch(began))
            await self._environment.mended()
            stopped_at, (ended, there) = time.time(), await self._progress()
        terminal = await self._all_terminal()
        liveness = self._liveness(stopped_at, there - ended, terminal)
        codes = await self._environment.stop_runners()
        with psycopg.connect(self._environment.url, autocommit=True) as connection:
            checker = Checker(
                connection,
                self._drawn,
                ExternalSink(self._environment.external),
                self._environment.record,
            )
            findings = [*checker.findings(), liveness, self._ends(codes), self._connections()]
        for line in self._environment.record.log:
            self._say(line)
        self._say(
            f"{self._repeated} enqueues were repeated after a lost answer; the run took "
            f"{time.monotonic() - began:.0f} s"
        )
        return findings

    # Feed.

    async def _feed(self, app: Regente, began: float) -> None:
        """Enqueues with a key for each task, so that a repetition after a lost answer is safe."""
        total, fed = len(self._drawn), 0
        while fed < total:
            share = min(1.0, 0.05 + (time.monotonic() - began) / self.plan.feed_seconds)
            until = max(fed + 1, int(total * share))
            await self._enqueue(app, range(fed, min(until, total)))
            self._fed = fed = min(until, total)
            await asyncio.sleep(FEED_EVERY_SECONDS)

    async def _enqueue(self, app: Regente, numbers: range) -> None:
        by_place: dict[tuple[str, str | None], list[int]] = {}
        for number in numbers:
            batch = f"batch {number % BATCHES}" if number % 4 == 0 else None
            by_place.setdefault((self._drawn[number][0], batch), []).append(number)
        for (pipeline, batch), members in by_place.items():
            args = [self._drawn[number][1] for number in members]
            keys = [f"chaos/{number}" for number in members]
            while True:
                try:
                    await app.enqueue_many(pipeline, args, keys=keys, batch=batch)
                    break
                except (DatabaseUnavailable, psycopg.OperationalError):
                    self._repeated += 1
                    await asyncio.sleep(0.1)

    # Inject faults.

    async def _break(self, began: float) -> None:
        for fault in self.plan.faults:
            await asyncio.sleep(max(0.0, began + fault.at_seconds - time.monotonic()))
            self._say(
                f"{time.monotonic() - began:7.2f} s  {fault.kind} "
                f"{fault.runner if 'runner' in fault.kind else ''}"
            )
            await self._environment.inflict(fault)

    async def _watch(self, began: float) -> None:
        while self._fed < len(self._drawn):
            await asyncio.sleep(2.0)
            ended, there = await self._progress()
            if there:
                self._say(
                    f"{time.monotonic() - began:7.2f} s  {ended} of {there} ended, "
                    f"{len(self._drawn) - self._fed} to come"
                )

    async def _progress(self) -> tuple[int, int]:
        with contextlib.suppress(psycopg.OperationalError):
            async with await psycopg.AsyncConnection.connect(
                self._environment.url, autocommit=True
            ) as connection:
                found = await connection.execute(
                    "SELECT count(*) FILTER (WHERE status >= 'completed'), count(*),"
                    " (SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE "
                    "'regente%') FROM regente.tasks"
                )
                row = await found.fetchone()
                assert row is not None
                self._environment.record.most_connections = max(
                    self._environment.record.most_connections, row[2]
                )
                return row[0], row[1]
        return 0, 0

    # The end.

    async def _all_terminal(self) -> bool:
        async def terminal() -> bool:
            return await self._progress() == (len(self._drawn), len(self._drawn))

        with contextlib.suppress(AssertionError):
            return await eventually_async(
                terminal, within_seconds=TIMEOUT_SECONDS, look_every_seconds=0.1
            )
        return False

    def _liveness(self, stopped_at: float, backlog: int, terminal: bool) -> Finding:
        """Measured after the faults have stopped and every task was claimed once: until then
        slots are scarce, and a wait says nothing about recovery. The raw value is reported
        beside it."""
        now = time.time()
        with psycopg.connect(self._environment.url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT extract(epoch FROM max(at))::double precision FROM regente.events"
                " WHERE event = 'task_claimed' AND attempt = 1"
            ).fetchone()
        seconds = now - max(stopped_at, row[0] if row else 0.0)
        recovery = LEASE_SECONDS + SWEEP_SECONDS + LONGEST_BACKOFF_SECONDS
        bound = recovery + LONGEST_TASK_SECONDS + POLL_SECONDS + STATEMENT_SECONDS
        detail = (
            f"{seconds:.1f} s, bound {bound:.1f} s; raw {now - stopped_at:.1f} s with a "
            f"backlog of {backlog}"
        )
        faults = (
            ()
            if terminal and seconds <= bound
            else (f"not everything was terminal after {detail}",)
        )
        return Finding("I8 terminal after the faults stop", detail, faults)

    def _ends(self, codes: list[int]) -> Finding:
        return Finding(
            "runners end cleanly",
            f"exit codes {codes}",
            () if set(codes) == {0} else (f"exit codes {codes}",),
        )

    def _connections(self) -> Finding:
        """I10: each runner has pools of 4 (statements), 4 (calls), 6 (transactions) and 6 (calls
        inside them), and four connections for claims, lease, notifications and stalls; the feeder
        has pools of 4 and 6."""
        most, bound = self._environment.record.most_connections, 3 * (4 + 4 + 6 + 6 + 4) + 4 + 6
        faults = () if most <= bound else (f"{most} connections at once",)
        return Finding("I10 connections", f"{most} at most, bound {bound}", faults)
