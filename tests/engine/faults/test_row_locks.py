"""Another session holds locks on rows of the engine, as a `FOR UPDATE` in psql does: only what
needs those rows waits, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from regente import Regente, Retry, Transient, UnknownOutcome
from regente.engine import database as database_module
from regente.engine import overdue
from regente.engine.errors import RowLocked
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.settings import Settings
from tests.engine.conftest import OpenApp
from tests.engine.helpers import (
    Sql,
    column,
    events_of,
    falls_silent,
    one,
    running,
    status_is,
    task_row,
    until,
)
from tests.support.eventually import TIMEOUT_SECONDS

DONE = "SELECT count(*) FROM regente.tasks WHERE status = 'completed'"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
HELD = "SELECT count(*) FROM regente.tasks WHERE regente.is_held(run_at)"
ENDS = ("return", "retry", "step", "event", "progress", "transaction")


class Crowd:
    """Tasks that all stop at a gate, and then end in the way that their arguments name."""

    def __init__(self, registry: Registry) -> None:
        self.gate = asyncio.Event()
        self.waiting = 0

        @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01), stall_after=None)
        async def run(task: Task[dict[str, Any]]) -> None:
            self.waiting += 1
            with contextlib.ExitStack() as stack:
                stack.callback(self._left)
                await self.gate.wait()
            await self._end(task)

    def _left(self) -> None:
        self.waiting -= 1

    async def _end(self, task: Task[dict[str, Any]]) -> None:
        match task.args.get("end"):
            case "retry" if task.tries == 0:
                raise RuntimeError("once")
            case "step":
                await task.step("A", lambda: 1)
            case "event":
                await task.event("seen")
            case "progress":
                await task.progress(0.5)
            case "transaction":
                async with task.transaction("T"):
                    pass
            case "pay":
                await task.step("PAY", lambda: 1, on_unknown="hold")
            case "refused" if task.tries == 0:
                await task.step("PAY", _refused, on_unknown="hold")
            case "unknown" if task.attempt == 1:
                await task.step("PAY", _unknown, on_unknown="hold")


async def _refused() -> None:
    raise Transient("refused")


async def _unknown() -> None:
    raise UnknownOutcome("no answer came")


@pytest.fixture
def crowd(registry: Registry) -> Crowd:
    return Crowd(registry)


def lock(holder: Sql, ids: list[int], table: str = "tasks") -> None:
    holder.execute(f"SELECT FROM regente.{table} WHERE id = ANY (%s) FOR UPDATE", (ids,))


def completed(sql: Sql) -> int:
    return int(one(sql, DONE)["count"])


@pytest.mark.parametrize("end", ENDS)
async def test_a_locked_row_delays_its_own_task_only(
    app: Regente, sql: Sql, holder: Sql, crowd: Crowd, end: str
) -> None:
    """F14, I1, I2: for every kind of write; also tasks that come later end at once."""
    ids = await app.enqueue_many("p", [{"end": end}] * 21)
    async with running(app, concurrency=50):
        await until(lambda: crowd.waiting == 21)
        lock(holder, ids[:1])
        crowd.gate.set()
        await until(lambda: completed(sql) == 20)
        await app.enqueue_many("p", [{"end": end}] * 100)
        await until(lambda: completed(sql) == 120)
        assert task_row(sql, ids[0])["status"] == "running"
        holder.rollback()
        await status_is(app, ids[0], "completed")
    assert task_row(sql, ids[0])["tries"] == (1 if end == "retry" else 0)
    assert events_of(sql, ids[0]).count("task_completed") == 1


async def test_fifty_locked_rows_delay_no_other(
    app: Regente, sql: Sql, holder: Sql, crowd: Crowd
) -> None:
    """F14, I1: locks that are taken one after the other, between steps of the other tasks."""
    ids = await app.enqueue_many("p", [{"end": ENDS[n % len(ENDS)]} for n in range(70)])
    async with running(app, concurrency=100):
        await until(lambda: crowd.waiting == 70)
        lock(holder, ids[:50])
        crowd.gate.set()
        await until(lambda: completed(sql) == 20)
        await app.enqueue_many("p", [{}] * 200)
        await until(lambda: completed(sql) == 220)
        holder.rollback()
        await until(lambda: completed(sql) == 270)
    assert column(sql, "SELECT DISTINCT attempt FROM regente.tasks WHERE id > %s", ids[-1]) == [1]


@pytest.mark.parametrize("end", ["pay", "refused", "unknown"])
async def test_calls_that_must_not_be_repeated_hold_no_connection_while_their_rows_are_locked(
    app: Regente, sql: Sql, holder: Sql, crowd: Crowd, end: str
) -> None:
    """F14, I1, I2: intents before a call, after a failed one and for a question."""
    # On the connections of a runner, 200 waits for a lock of 2 s each would take minutes.
    ids = await app.enqueue_many("p", [{"end": end}] * 200 + [{}] * 20)
    async with running(app, concurrency=250):
        await until(lambda: crowd.waiting == 220)
        lock(holder, ids[:200])
        crowd.gate.set()
        await until(lambda: completed(sql) == 20)
        await app.enqueue_many("p", [{}] * 100)
        await until(lambda: completed(sql) == 120)
        holder.rollback()
        if end == "unknown":
            await until(lambda: one(sql, HELD)["count"] == 200)
        else:
            await until(lambda: completed(sql) == 320)


@pytest.mark.parametrize("calls", [1, 2])
async def test_a_runner_stops_although_a_row_is_locked(
    database_url: str, registry: Registry, sql: Sql, holder: Sql, crowd: Crowd, calls: int
) -> None:
    """O13, I1, I7: what could not be written is left to the next runner; no crash is charged."""
    settings = Settings(sweep_seconds=0.2, drain_seconds=1.0)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        ids = await app.enqueue_many("p", [{}] * 3)
        run = asyncio.create_task(app.run())
        await until(lambda: crowd.waiting == 3)
        lock(holder, ids[:1])
        crowd.gate.set()
        await until(lambda: completed(sql) == 2)
        for _ in range(calls):
            app.stop_running()
        report = await asyncio.wait_for(run, TIMEOUT_SECONDS)
        assert report.left == 1
        holder.rollback()
        async with running(app):
            await status_is(app, ids[0], "completed")
    row = task_row(sql, ids[0])
    assert (row["tries"], row["crashes"], row["attempt"]) == (0, 0, 2)


async def test_a_drain_hands_back_what_is_not_locked(
    database_url: str, registry: Registry, sql: Sql, holder: Sql, crowd: Crowd
) -> None:
    """O13, I1: the tasks that still run when the drain ends."""
    settings = Settings(sweep_seconds=0.2, drain_seconds=0.1)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        ids = await app.enqueue_many("p", [{}] * 5)
        run = asyncio.create_task(app.run())
        await until(lambda: crowd.waiting == 5)
        lock(holder, ids[:1])
        app.stop_running()
        await asyncio.wait_for(run, TIMEOUT_SECONDS)
    assert column(sql, "SELECT status::text FROM regente.tasks ORDER BY id") == [
        "running",
        *["queued"] * 4,
    ]


async def test_a_stalled_task_with_a_locked_row_does_not_cost_the_lease(
    database_url: str, registry: Registry, sql: Sql, holder: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4, I8: the lease is renewed beside it, and the healthy tasks go on."""
    monkeypatch.setattr(overdue, "WATCH_EVERY_SECONDS", 0.05)
    healthy, locked = asyncio.Event(), asyncio.Event()
    starts: list[int] = []

    @registry.pipeline("stalls", retry=Retry(max_attempts=2, first=0.01), stall_after=60)
    async def stall(task: Task) -> None:
        starts.append(task.attempt)
        if task.attempt == 1:
            await locked.wait()
            falls_silent(task)
            await asyncio.Event().wait()

    @registry.pipeline("works", stall_after=None)
    async def work(task: Task) -> None:
        await healthy.wait()

    settings = Settings(sweep_seconds=60, lock_ttl_ms=15_000, heartbeat_interval_ms=100)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        stalled = await app.enqueue_many("stalls", [{}] * 20)
        task_id = await app.enqueue("works", {})
        async with running(app):
            await until(lambda: len(starts) == 20)
            await status_is(app, task_id, "running")
            lock(holder, stalled)
            locked.set()
            before = one(sql, "SELECT heartbeat_at FROM regente.runners")["heartbeat_at"]
            later = "SELECT count(*) FROM regente.runners WHERE heartbeat_at > %s + interval '4 s'"
            await until(lambda: one(sql, later, before)["count"] == 1)
            assert len(column(sql, "SELECT id FROM regente.runners")) == 1
            healthy.set()
            await status_is(app, task_id, "completed")
            holder.rollback()
            await until(lambda: completed(sql) == 21)
    assert task_row(sql, task_id)["attempt"] == 1


async def test_a_cancel_of_many_does_not_hold_them_while_one_is_locked(
    app: Regente, sql: Sql, holder: Sql, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F14, O12: it gives up, with an error that says why; nothing waits for it."""
    monkeypatch.setattr(database_module, "RETRY_SECONDS", 0.5)
    ids = await app.enqueue_many("p", [{}] * 5)
    lock(holder, ids[4:])
    with pytest.raises(RowLocked):
        await app.cancel_many(ids)
    sql.execute("SELECT FROM regente.tasks WHERE id = %s FOR UPDATE NOWAIT", (ids[0],))
    holder.rollback()
    assert await app.cancel_many(ids) == {"canceled": 5, "canceling": 0}


async def test_a_locked_row_of_the_runner_is_named(
    database_url: str,
    registry: Registry,
    sql: Sql,
    holder: Sql,
    crowd: Crowd,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """I8: the lease cannot be renewed; the log says who holds the row, and the runner goes on."""
    settings = Settings(sweep_seconds=0.2, lock_ttl_ms=15_000, heartbeat_interval_ms=100)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        task_id = await app.enqueue("p", {})
        async with running(app):
            await until(lambda: crowd.waiting == 1)
            lock(holder, column(sql, "SELECT id FROM regente.runners"), "runners")
            await until(lambda: "another session has locked the runner's row" in caplog.text)
            (record,) = [found for found in caplog.records if hasattr(found, "locked_by")][:1]
            assert str(holder.info.backend_pid) in str(record.locked_by)
            holder.rollback()
            crowd.gate.set()
            await status_is(app, task_id, "completed")
    assert task_row(sql, task_id)["crashes"] == 0


async def test_a_locked_task_of_a_lost_runner_delays_no_other(
    app: Regente, open_app: OpenApp, sql: Sql, holder: Sql, crowd: Crowd
) -> None:
    """I8: the sweeps step over it."""
    other = await open_app()
    ids = await other.enqueue_many("p", [{}] * 3)
    async with running(other):
        await until(lambda: crowd.waiting == 3)
        lock(holder, ids[:1])
        sql.execute("UPDATE regente.runners SET lease_until = regente.clock() - interval '1 s'")
        crowd.gate.set()
        async with running(app):
            await until(lambda: completed(sql) == 2)
            holder.rollback()
            await until(lambda: completed(sql) == 3)


async def test_a_locked_batch_leaves_other_calls_their_connections(
    app: Regente, sql: Sql, holder: Sql, crowd: Crowd
) -> None:
    """F14, I1: calls that add to the batch wait for it, and only they."""
    batch_id = await app.open_batch("b")
    lock(holder, [batch_id], "batches")
    adding: list[asyncio.Task[Any]] = [
        asyncio.create_task(app.enqueue("p", batch="b")) for _ in range(6)
    ]
    adding.append(asyncio.create_task(app.enqueue_many("p", [{}] * 2000, batch="b")))
    await until(lambda: one(sql, WAITING)["count"] > 0)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await asyncio.gather(*(app.enqueue("p") for _ in range(10)), app.counts())
    assert not any(one.done() for one in adding)
    holder.rollback()
    await asyncio.gather(*adding)
    assert (await app.batch("b")).total == 2006


@pytest.mark.parametrize("table", ["tasks", "batches"])
async def test_an_operator_does_not_wait_for_ever_for_a_locked_row(
    app: Regente, sql: Sql, holder: Sql, crowd: Crowd, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F14: the call ends with an error that says why."""
    monkeypatch.setattr(database_module, "RETRY_SECONDS", 0.1)
    await app.open_batch("b")
    task_id = await app.enqueue("p", batch="b")
    await app.cancel(task_id)
    sql.execute("UPDATE regente.batches SET status = 'stalled'")
    holder.execute(f"SELECT FROM regente.{table} FOR UPDATE")
    calls: list[Any] = [app.retry(task_id)]
    if table == "batches":
        calls += [app.cancel_batch("b"), app.resume_batch("b")]
    for call in calls:
        with pytest.raises(RowLocked):
            await call
