"""Deadlocks and serialization failures (F14): the engine tries again, the caller sees no error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from regente import Regente, Retry, Transient
from regente.engine import database
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.settings import Settings
from tests.engine.helpers import Sql, column, until
from tests.support.audit import audit
from tests.support.running import runner_in
from tests.support.sinks import ARRIVE, CREATE_SINK, sink_arrivals

Ids = list[int]
Call = Callable[[Regente, Ids], Coroutine[Any, Any, Any]]

# What each call finds, and what it leaves.
CALLS: dict[str, tuple[str, Call, str]] = {
    "cancel": ("queued", lambda app, ids: app.cancel_many(ids), "canceled"),
    "cancel_batch": ("queued", lambda app, ids: app.cancel_batch("b"), "canceled"),
    "retry": ("failed", lambda app, ids: app.retry_many(ids), "queued"),
    "reprocess_batch": ("failed", lambda app, ids: app.reprocess_batch("b"), "queued"),
    "discard": ("failed", lambda app, ids: app.discard(ids), "canceled"),
    "queue": ("draft", lambda app, ids: app.queue(ids), "queued"),
    "resume_batch": ("running", lambda app, ids: app.resume_batch("b"), "queued"),
}


@pytest.fixture
def ties(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of the engine that PostgreSQL ended in favour of others."""
    found: list[str] = []
    original = database.is_lost

    def is_lost(error: BaseException) -> bool:
        if isinstance(error, database.TIES):
            found.append(type(error).__name__)
        return original(error)

    monkeypatch.setattr(database, "is_lost", is_lost)
    return found


@pytest.fixture
def two_tasks(registry: Registry) -> None:
    @registry.pipeline("p")
    async def run(task: Task) -> None:
        """Never runs."""


@pytest.mark.usefixtures("two_tasks")
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_deadlocks_is_repeated(
    name: str,
    database_url: str,
    registry: Registry,
    settings: Settings,
    sql: Sql,
    holder: Sql,
    ties: list[str],
) -> None:
    """F14: another session locks the two tasks in the other order."""
    before, call, after = CALLS[name]
    # Of the two sessions the engine's is the victim.
    url = make_conninfo(database_url, options="-c deadlock_timeout=50ms")
    holder.execute("SET deadlock_timeout = '10min'")
    holder.commit()
    async with Regente(url, settings=settings, pipelines=registry) as app:
        ids = await enqueue_two(app, sql, before)
        holder.execute("SELECT FROM regente.tasks WHERE id = %s FOR UPDATE", [ids[1]])
        calling = asyncio.create_task(call(app, ids))
        await until(lambda: waits_for_a_lock(sql))
        await asyncio.to_thread(
            holder.execute, "SELECT FROM regente.tasks WHERE id = %s FOR UPDATE", [ids[0]]
        )
        holder.rollback()
        await calling
    # On a busy machine the limit of the call's own wait for a lock may come first.
    assert ties
    assert set(ties) <= {"DeadlockDetected", "LockNotAvailable"}
    assert set(column(sql, "SELECT status::text FROM regente.tasks")) == {after}


@pytest.mark.usefixtures("two_tasks")
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_cannot_be_serialized_is_repeated(
    name: str,
    database_url: str,
    registry: Registry,
    settings: Settings,
    sql: Sql,
    holder: Sql,
    ties: list[str],
) -> None:
    """F14: another session changes a task while the call waits for it."""
    before, call, after = CALLS[name]
    url = make_conninfo(database_url, options="-c default_transaction_isolation=repeatable\\ read")
    async with Regente(url, settings=settings, pipelines=registry) as app:
        ids = await enqueue_two(app, sql, before)
        holder.execute("UPDATE regente.tasks SET progress = 0.5 WHERE id = %s", [ids[1]])
        calling = asyncio.create_task(call(app, ids))
        await until(lambda: waits_for_a_lock(sql))
        holder.commit()
        await calling
    assert ties == ["SerializationFailure"]
    assert set(column(sql, "SELECT status::text FROM regente.tasks")) == {after}


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_server_with_a_strict_default_isolation_changes_nothing(
    isolation: str,
    fresh_database: str,
    registry: Registry,
    settings: Settings,
) -> None:
    """F14, I1, I2, I6: only a pipeline's own transaction can fail, as by any error of its SQL."""

    @registry.pipeline("p", retry=Retry(max_attempts=20, first=0.01, jitter=True))
    async def run(task: Task) -> None:
        await task.step("READ", lambda: 1)
        if task.tries == 0:
            raise Transient("once")
        async with task.transaction("STORE") as connection:
            await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))

    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(CREATE_SINK)
        name = connection.info.dbname
        connection.execute(
            f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'"
        )
        keys = [f"key {number}" for number in range(50)]
        async with (
            Regente(fresh_database, settings=settings, pipelines=registry) as app,
            Regente(fresh_database, settings=settings, pipelines=registry) as other,
            runner_in(app),
            runner_in(other),
        ):
            there, back = await asyncio.gather(
                app.enqueue_many("p", [{}] * 50, keys=keys, batch="b"),
                other.enqueue_many("p", [{}] * 50, keys=keys[::-1], batch="b"),
            )
            assert there == back[::-1]
            await until(lambda: completed(connection) == len(there))
            await until(lambda: batch_status(connection) == "completed")
        assert sink_arrivals(connection) == {(task_id, "STORE"): 1 for task_id in there}
        assert audit(connection) == []


async def enqueue_two(app: Regente, sql: Sql, status: str) -> Ids:
    ids: Ids = [await app.enqueue("p", {}, batch="b", draft=status == "draft") for _ in range(2)]
    put_into(sql, status)
    return ids


def put_into(sql: Sql, status: str) -> None:
    """Into this state; a running task is silent, and so is its batch."""
    if status in ("running", "failed"):
        sql.execute(
            "UPDATE regente.tasks SET status = 'running', attempt = 1, runner_id = 1,"
            " heartbeat_at = regente.clock() - interval '1 day'"
        )
        sql.execute("UPDATE regente.batches SET status = 'stalled'")
    if status == "failed":
        sql.execute(
            "UPDATE regente.tasks SET status = 'failed', runner_id = NULL,"
            " finished_at = regente.clock()"
        )


def waits_for_a_lock(sql: Sql) -> bool:
    return bool(column(sql, "SELECT pid FROM pg_locks WHERE NOT granted"))


def completed(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(
        "SELECT count(*) FROM regente.tasks WHERE status = 'completed'"
    ).fetchone()
    return row[0] if row else 0


def batch_status(connection: psycopg.Connection[Any]) -> str:
    row = connection.execute("SELECT status::text FROM regente.batches").fetchone()
    return row[0] if row else ""
