"""Client calls inside pipelines: they wait for each other in no circle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regente import Regente, Retry, Task
from regente.engine import database as database_module
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Sql, column, one, running, status_is, task_row, until

LOCK_BATCH = "UPDATE regente.batches SET details = '{}' WHERE id = %s"
BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND starts_with(application_name, 'regente') AND wait_event_type = 'Lock'"
)
CONNECTED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND starts_with(application_name, 'regente')"
)


def blocked(sql: Sql) -> int:
    count: int = one(sql, BLOCKED)["count"]
    return count


async def test_calls_that_wait_for_a_transaction_leave_the_engine_its_connections(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I8, F11: four enqueues wait for a row of a transaction that reports its progress."""
    batch = await app.open_batch("B")

    @registry.pipeline("child")
    async def child(task: Task) -> None: ...

    @registry.pipeline("caller")
    async def caller(task: Task) -> None:
        await app.enqueue("child", batch=batch)

    @registry.pipeline("holder")
    async def holder(task: Task) -> None:
        async with task.transaction("HOLD") as connection:
            await connection.execute(LOCK_BATCH, [batch])
            await app.enqueue_many("caller", [{}] * 4, keys=[str(n) for n in range(4)])
            await until(lambda: blocked(sql) >= 4)
            await task.progress(0.5)

    task_id = await app.enqueue("holder")
    async with running(app):
        await status_is(app, task_id, "completed")
        await until(lambda: column(sql, "SELECT total FROM regente.batches") == [4])


@pytest.mark.parametrize("calls", ["query", "enqueue", "enqueue with a key"])
async def test_a_transaction_gets_its_calls_through_while_others_wait_for_it(
    database_url: str, registry: Registry, sql: Sql, calls: str
) -> None:
    """I8, F11: every connection of the client waits for the row, and all transactions but one."""
    settings = Settings(sweep_seconds=0.2, database_pool_size=3)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        batch = await app.open_batch("B")

        @registry.pipeline("child")
        async def child(task: Task) -> None: ...

        @registry.pipeline("outside")
        async def outside(task: Task) -> None:
            await app.enqueue("child", batch=batch)

        @registry.pipeline("inside")
        async def inside(task: Task) -> None:
            async with task.transaction("WAIT"):
                await app.enqueue("child", batch=batch)

        @registry.pipeline("holder")
        async def holder(task: Task) -> None:
            async with task.transaction("HOLD") as connection:
                await connection.execute(LOCK_BATCH, [batch])
                for number in range(4):
                    await app.enqueue("outside", key=f"{number}")
                for number in range(2):
                    await app.enqueue("inside", key=f"{number}")
                await until(lambda: blocked(sql) >= 6)
                if calls == "query":
                    await asyncio.gather(*(app.counts() for _ in range(5)))
                else:
                    await app.enqueue("child", key="last" if "key" in calls else None)

        task_id = await app.enqueue("holder")
        async with running(app):
            await status_is(app, task_id, "completed")
            await until(lambda: column(sql, "SELECT total FROM regente.batches") == [6])


async def test_a_call_that_waits_for_its_own_transaction_ends_with_a_clear_error(
    app: Regente, registry: Registry, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: the pipeline waits for itself, which PostgreSQL cannot see; the other calls pass."""
    monkeypatch.setattr(database_module, "BESIDE_LOCK_SECONDS", 0.3)
    batch = await app.open_batch("B")

    @registry.pipeline("child")
    async def child(task: Task) -> None: ...

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> None:
        async with task.transaction("HOLD") as connection:
            await connection.execute(LOCK_BATCH, [batch])
            await app.enqueue("child", batch=batch)

    task_id = await app.enqueue("p")
    async with running(app):
        await status_is(app, task_id, "failed")
    row = task_row(sql, task_id)
    assert row["error_code"] == "CALL_IN_TRANSACTION"
    assert "connection=" in row["error_message"]
    assert column(sql, "SELECT count(*) FROM regente.steps") == [0]


async def test_a_transaction_inside_another_one_is_refused(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I8: as many of them as there are connections would wait for each other."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        async with task.transaction("A"), task.transaction("B"):
            pass

    task_id = await app.enqueue("p")
    async with running(app):
        await status_is(app, task_id, "failed")
    assert task_row(sql, task_id)["error_code"] == "NESTED_TRANSACTION"


async def test_a_client_call_inside_a_transaction_of_the_client_is_refused(
    app: Regente, registry: Registry
) -> None:
    """I8: it would wait for a connection of the pool that its caller holds one of."""

    @registry.pipeline("p")
    async def run(task: Task) -> None: ...

    async def count(_: Any) -> None:
        await app.counts()

    for call in (app.counts, lambda: app.database.run(count), lambda: app.get(1)):
        async with app.database.transaction():
            with pytest.raises(RuntimeError, match="connection="):
                await call()
    async with app.database.transaction() as connection:
        task_id = await app.enqueue("p", connection=connection)
    assert (await app.get(task_id)).status == "queued"


async def test_a_task_that_outlives_the_block_it_began_in_may_call(
    app: Regente, registry: Registry
) -> None:
    """What counts is whether the connection is held now, not where the code was started."""
    release = asyncio.Event()

    async def later() -> dict[str, int]:
        await release.wait()
        return await app.counts()

    async with app.database.transaction():
        counting = asyncio.create_task(later())
    release.set()
    assert (await counting)["queued"] == 0


async def test_an_idle_runner_has_four_connections(
    open_app: OpenApp, registry: Registry, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I10: claims, lease, notifications, and one for its statements."""
    monkeypatch.setattr(database_module, "IDLE_SECONDS", 0.5)
    app = await open_app()

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        async with task.transaction("A"):
            await app.counts()

    async with running(app):
        task_id = await app.enqueue("p")
        await status_is(app, task_id, "completed")
        await until(lambda: one(sql, CONNECTED)["count"] <= 4)


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (Settings(), 10),
        (Settings(database_connections=9), 9),
        (Settings(database_pool_size=3), 13),
    ],
    ids=["half of 20, at least 10", "given", "given for transactions"],
)
async def test_a_runners_process_opens_no_more_connections_than_it_may(
    database_url: str, registry: Registry, sql: Sql, settings: Settings, most: int
) -> None:
    """Q8: 20 tasks at once, each with steps, calls, and calls inside a transaction."""
    async with Regente(database_url, settings=settings, pipelines=registry) as app:

        @registry.pipeline("child")
        async def child(task: Task) -> None: ...

        @registry.pipeline("busy")
        async def busy(task: Task) -> None:
            await asyncio.gather(task.progress(0.1), app.counts())
            async with task.transaction("TX") as connection:
                await connection.execute("SELECT pg_sleep(0.01)")
                await app.enqueue("child")
            await app.enqueue("child")

        await app.enqueue_many("busy", [{}] * 200)
        async with running(app, concurrency=20):
            await until(lambda: one(sql, LEFT)["count"] == 0)
            # Pools keep what they opened for a minute.
            assert one(sql, CONNECTED)["count"] <= most
            assert settings.pool_sizes(20).connections <= most


LEFT = "SELECT count(*) FROM regente.tasks WHERE status < 'completed'"
