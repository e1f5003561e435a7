"""A runner that the network separates from its database (F6; I1 to I4, I6, I8)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from regente import DatabaseUnavailable, Regente
from regente.engine import listener, silence
from regente.engine.lease import LeaseConfig
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.settings import Settings
from tests.engine.helpers import Sql, column, running, status_is, until
from tests.support.audit import audit
from tests.support.network import BOTH, Direction, Network, network_to_postgres
from tests.support.sinks import ARRIVE, CREATE_SINK, ExternalSink, sink_arrivals

SHORT = Settings(
    sweep_seconds=0.1, batches_seconds=0.2, lock_ttl_ms=1500, heartbeat_interval_ms=200
)
CUTS = {
    "both ways": BOTH,
    "to the server": (Direction.TO_SERVER,),
    "to the runner": (Direction.TO_CLIENT,),
}


@pytest.fixture
def database_url(fresh_database: str) -> str:
    """A database of the test's own: connections that were cut are still open at its end."""
    return fresh_database


@pytest.fixture
def through(database_url: str) -> Iterator[tuple[Network, str]]:
    with network_to_postgres(database_url) as opened:
        yield opened


@pytest.fixture
def network(through: tuple[Network, str]) -> Network:
    return through[0]


@pytest.fixture
async def far(through: tuple[Network, str], registry: Registry) -> AsyncIterator[Regente]:
    """An app behind the network."""
    async with Regente(through[1], settings=SHORT, pipelines=registry) as opened:
        yield opened


@pytest.fixture
async def near(database_url: str, registry: Registry) -> AsyncIterator[Regente]:
    async with Regente(database_url, settings=SHORT, pipelines=registry) as opened:
        yield opened


@pytest.fixture
def external(tmp_path: Path) -> ExternalSink:
    return ExternalSink(tmp_path / "external")


@pytest.fixture
def gate(registry: Registry, external: ExternalSink, sql: Sql) -> asyncio.Event:
    """Tasks act outside again and again; when the gate opens they store an effect and complete."""
    gate = asyncio.Event()
    sql.execute(CREATE_SINK)

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        while not gate.is_set():
            external.arrive(str(task.id), task.attempt)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await gate.wait()
        await task.step("READ", lambda: task.attempt)
        async with task.transaction("STORE") as connection:
            await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))

    return gate


@pytest.mark.parametrize("cut", CUTS)
async def test_a_partitioned_runner_stops_its_tasks_before_another_starts_them(
    cut: str,
    network: Network,
    far: Regente,
    near: Regente,
    database_url: str,
    sql: Sql,
    gate: asyncio.Event,
    external: ExternalSink,
) -> None:
    """F6, I1 to I4, I6, I8: and comes back under a new id when the network heals."""
    ids = await near.enqueue_many("p", [{}] * 8)
    async with running(far):
        await until(lambda: runs(far, 8))
        first_id = far._runner.id if far._runner else 0
        network.cut(*CUTS[cut])
        async with running(near):
            await until(lambda: runs(near, 8))
            gate.set()
            for task_id in ids:
                await status_is(near, task_id, "completed")
        gate.clear()
        network.heal()
        ids += await near.enqueue_many("p", [{}] * 3)
        await until(lambda: runs(far, 3))
        gate.set()
        for task_id in ids:
            await status_is(near, task_id, "completed")
        assert far._runner is not None
        assert far._runner.id != first_id
    assert acted_too_late(external) == []
    assert set(column(sql, "SELECT tries FROM regente.tasks")) == {0}
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert sink_arrivals(connection) == {(task_id, "STORE"): 1 for task_id in ids}
        assert audit(connection) == []


def test_the_margin_of_a_lease_is_a_tenth_of_what_a_renewal_may_be_late() -> None:
    """I4: it never comes close to the interval of renewals, and is a second at most."""
    assert LeaseConfig().usable_seconds == 59.0
    assert LeaseConfig(3.0, 0.5).usable_seconds == 2.75
    assert LeaseConfig(10.0, 9.0).usable_seconds == pytest.approx(9.9)


def runs(app: Regente, count: int) -> bool:
    return app._runner is not None and app._runner.running_count == count


def acted_too_late(external: ExternalSink) -> list[str]:
    """Attempts that acted after a later one of the same task had."""
    newest: dict[str, int] = {}
    found = []
    for key, attempt in external.arrivals():
        if attempt < newest.get(key, 0):
            found.append(f"task {key}: attempt {attempt} after {newest[key]}")
        newest[key] = max(attempt, newest.get(key, 0))
    return found


async def test_a_runner_goes_on_when_its_connections_are_forgotten(
    network: Network,
    far: Regente,
    near: Regente,
    database_url: str,
    sql: Sql,
    gate: asyncio.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F6, I1, I2, I6, I8: what it sent is taken, and no answer ever comes."""
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.5)
    ids = await near.enqueue_many("p", [{}] * 8)
    async with running(far):
        await until(lambda: runs(far, 8))
        network.forget_connections()
        gate.set()
        ids.append(await near.enqueue("p", {}))
        for task_id in ids:
            await status_is(near, task_id, "completed")
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert sink_arrivals(connection) == {(task_id, "STORE"): 1 for task_id in ids}
        assert audit(connection) == []


@pytest.mark.usefixtures("no_polls")
async def test_a_runner_hears_of_tasks_when_its_listening_was_forgotten(
    network: Network,
    far: Regente,
    near: Regente,
    gate: asyncio.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F6, I8: without a poll only a notification wakes it."""
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(listener, "CHECK_SECONDS", 0.2)
    gate.set()
    async with running(far):
        await status_is(near, await near.enqueue("p", {}), "completed")
        network.forget_connections()
        await status_is(near, await near.enqueue("p", {}), "completed")


async def test_a_call_gets_its_answer_over_another_connection(
    network: Network, far: Regente, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F6: the first one took the question and fell silent."""
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.5)
    await far.enqueue("p", {})
    network.forget_connections()
    assert (await far.counts("p"))["queued"] == 1


async def test_a_call_into_a_cut_network_ends_with_an_error(
    network: Network, far: Regente, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F6."""
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(silence, "CONNECT_SECONDS", 2)
    for pool in vars(far.database).values():
        if isinstance(pool, AsyncConnectionPool):
            pool.timeout = 1.0
    await far.enqueue("p", {})
    network.cut(*BOTH)
    with pytest.raises(DatabaseUnavailable):
        await far.counts("p")


async def test_a_statement_that_waits_for_a_lock_is_not_given_up(
    far: Regente,
    gate: asyncio.Event,
    holder: Sql,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F6: the server works on it."""
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.1)
    checked = count_checks(monkeypatch)
    task_id = await far.enqueue("p", {})
    holder.execute("SELECT FROM regente.tasks FOR UPDATE")
    canceling = asyncio.create_task(far.cancel(task_id))
    await until(lambda: len(checked) >= 3)
    holder.rollback()
    await canceling
    assert set(checked) == {True}
    assert "given up" not in caplog.text


def count_checks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the server said at each check that it is busy."""
    found: list[bool] = []
    original = silence.WatchedConnection._is_busy

    async def is_busy(connection: silence.WatchedConnection) -> bool:
        found.append(await original(connection))
        return found[-1]

    monkeypatch.setattr(silence.WatchedConnection, "_is_busy", is_busy)
    return found
