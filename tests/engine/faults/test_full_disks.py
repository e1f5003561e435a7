"""A disk is full: that of the data, of the WAL, or of the logs (F10)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, NoReturn

import psycopg
import pytest

from regente import DatabaseUnavailable, Regente
from regente.engine import database
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.settings import Settings
from tests.engine.faults import skewed_pipelines as _registered  # noqa: F401 - for the client
from tests.engine.helpers import until
from tests.support.audit import audit
from tests.support.eventually import eventually_async
from tests.support.runner_process import ROOT
from tests.support.running import runner_in
from tests.support.sinks import ARRIVE, create_sink, sink_arrivals
from tests.support.small_disk import SmallDisks, small_disks
from tests.support.template import install_schema

PAD = "x" * 20_000
NO_ROOM = "No space left on device"
NO_ROOM_FOR_A_STEP = re.compile(
    NO_ROOM + r".{0,300}STATEMENT:.{0,1500}INSERT INTO regente\.steps", re.DOTALL
)


@pytest.fixture
def disks() -> Iterator[SmallDisks]:
    with small_disks() as opened:
        yield opened


@pytest.fixture
def gate(registry: Registry) -> asyncio.Event:
    """Each task waits for it, records a step, stores an effect and returns."""
    gate = asyncio.Event()

    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> str:
        await gate.wait()
        await task.step("READ", lambda: PAD)
        async with task.transaction("STORE") as connection:
            await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))
        return PAD

    return gate


@pytest.fixture
async def app(
    disks: SmallDisks, registry: Registry, settings: Settings, gate: asyncio.Event
) -> AsyncIterator[Regente]:
    await asyncio.to_thread(install_schema, disks.url)
    with psycopg.connect(disks.url, autocommit=True) as connection:
        create_sink(connection)
    async with Regente(disks.url, settings=settings, pipelines=registry) as opened:
        yield opened


async def test_a_full_data_disk_delays_tasks_and_loses_none(
    app: Regente, disks: SmallDisks, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F10, I1, I2, I6, I7, I8."""
    ids = await app.enqueue_many("p", [{"n": n} for n in range(200)], batch="b")
    monkeypatch.setattr(database, "RETRY_SECONDS", 0.5)
    async with runner_in(app):
        await until(lambda: app._runner is not None and app._runner.running_count == 100)
        disks.fill("data")
        with pytest.raises(DatabaseUnavailable, match=NO_ROOM):
            await enqueue_on(app, ids)
        gate.set()
        await until(lambda: NO_ROOM_FOR_A_STEP.search(disks.said()))
        disks.free("data")
        await eventually_async(lambda: completed(app, "p", len(ids)))
    check(disks, ids)


async def test_a_full_wal_disk_stops_the_server_and_loses_nothing(
    app: Regente, disks: SmallDisks, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F10, I1, I2, I6, I7, I8: the server ends with a panic, and is started when there is room."""
    ids = await app.enqueue_many("p", [{"n": n} for n in range(200)], batch="b")
    monkeypatch.setattr(database, "RETRY_SECONDS", 0.5)
    gate.set()
    async with runner_in(app):
        disks.fill("wal")
        with pytest.raises(DatabaseUnavailable):
            await enqueue_on(app, ids)
        assert "PANIC:  could not write to file" in disks.said()
        disks.free("wal")
        disks.start()
        ids.append(await app.enqueue("p", {"pad": PAD}, key=f"key {len(ids)}", batch="b"))
        await eventually_async(lambda: completed(app, "p", len(ids)))
    check(disks, ids)


async def test_a_full_disk_of_the_servers_log_changes_nothing(
    app: Regente, disks: SmallDisks, gate: asyncio.Event
) -> None:
    """F10, I1, I2."""
    disks.fill("log")
    gate.set()
    ids = await app.enqueue_many("p", [{"n": n} for n in range(20)], batch="b")
    async with runner_in(app):
        with psycopg.connect(disks.url, autocommit=True) as connection:
            for _ in range(100):  # lines for the log
                with pytest.raises(psycopg.Error):
                    connection.execute("no statement")
        await eventually_async(lambda: completed(app, "p", len(ids)))
    check(disks, ids)


async def test_a_runner_that_cannot_write_its_log_does_its_work(
    database_url: str, settings: Settings
) -> None:
    """F10, I1: and drains on SIGTERM. Its exit code says that its last line is missing."""
    async with Regente(database_url, settings=settings) as app:
        await app.enqueue_many("skew.retried", [{} for _ in range(20)])
        with run_without_a_log(database_url) as process:
            await eventually_async(lambda: completed(app, "skew.retried", 20))
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 30) == 1
        assert [runner.status for runner in await app.runners(everyone=True)] == ["stopped"]


@contextlib.contextmanager
def run_without_a_log(database_url: str) -> Iterator[subprocess.Popen[bytes]]:
    command = ["run", "--no-offered", "--import", "tests.engine.faults.skewed_pipelines"]
    with (
        open("/dev/full", "w") as full,
        subprocess.Popen(
            [sys.executable, "-m", "regente", *command],
            cwd=ROOT,
            env={**os.environ, "REGENTE_DATABASE_URL": database_url},
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=full,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


async def enqueue_on(app: Regente, ids: list[int]) -> NoReturn:
    """Until it fails. With a key, the one that failed can be repeated."""
    while True:
        ids.append(await app.enqueue("p", {"pad": PAD}, key=f"key {len(ids)}", batch="b"))


async def completed(app: Regente, pipeline: str, count: int) -> bool:
    with contextlib.suppress(DatabaseUnavailable):
        return (await app.counts(pipeline))["completed"] == count
    return False


def check(disks: SmallDisks, ids: list[int]) -> None:
    with psycopg.connect(disks.url, autocommit=True) as connection:
        arrivals = sink_arrivals(connection)
        assert (len(arrivals), set(arrivals.values())) == (len(ids), {1})
        charged = connection.execute("SELECT count(*) FROM regente.tasks WHERE tries > 0")
        assert charged.fetchone() == (0,)
        assert audit(connection) == []
