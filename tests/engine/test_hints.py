"""Hints: sent after the commit, in transactions of their own, merged, and never needed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from regente import Regente
from regente.engine import hints, runner
from regente.engine.cancellation import cancel_all
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.settings import Settings
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Sql, one, running, until

Heard = list[tuple[str, int]]


@pytest.fixture(autouse=True)
def ran(registry: Registry) -> list[Any]:
    found: list[Any] = []

    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> None:
        found.append(task.args.get("n"))

    return found


@pytest.fixture
async def heard(database_url: str) -> AsyncIterator[Heard]:
    """Pipeline and priority of each hint that a listening session receives."""
    found: Heard = []
    async with await AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("LISTEN regente_queued")

        async def listen() -> None:
            async for notice in connection.notifies():
                pipeline, priority, *_ = notice.payload.split()
                found.append((pipeline, int(priority)))

        listening = asyncio.create_task(listen())
        yield found
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


@pytest.fixture
def no_standby(sql: Sql) -> Iterator[Callable[[], None]]:
    """Commits wait for a standby that is not there, until the given function is called; not those
    of sessions with `synchronous_commit=local`."""
    yield lambda: _require_standbys(sql, "")
    _require_standbys(sql, "")


def _require_standbys(sql: Sql, names: str) -> None:
    sql.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    sql.execute("SELECT pg_reload_conf()")


@pytest.fixture
async def blocked_notify(sql: Sql, no_standby: object, database_url: str) -> AsyncIterator[None]:
    """A session waits in its commit, with the lock of all NOTIFYs."""
    async with await AsyncConnection.connect(database_url, autocommit=True) as connection:

        async def notify() -> None:
            while True:  # the server takes a moment to require the standby
                async with connection.transaction():
                    await connection.execute("INSERT INTO regente.events (event) VALUES ('x')")
                    await connection.execute("NOTIFY regente_queued, 'p'")

        _require_standbys(sql, "nobody")
        notifying = asyncio.create_task(notify())
        await until(lambda: waits_for_a_standby(sql))
        yield
        _require_standbys(sql, "")
        await cancel_all([notifying])


def waits_for_a_standby(sql: Sql) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    return bool(one(sql, query)["count"])


@pytest.mark.usefixtures("blocked_notify")
@pytest.mark.parametrize("way", ["alone", "many", "by copy", "keyed", "transaction", "queue"])
async def test_tasks_are_committed_while_another_session_holds_the_lock_of_notify(
    no_standby: Callable[[], None],
    sql: Sql,
    database_url: str,
    registry: Registry,
    settings: Settings,
    way: str,
) -> None:
    """I1: a commit that stores tasks never waits for another session's NOTIFY."""
    url = make_conninfo(database_url, options="-c synchronous_commit=local")
    drafts: list[int] = []

    async def store(client: Regente) -> None:
        match way:
            case "alone":
                await client.enqueue("p", {})
            case "many":
                await client.enqueue_many("p", [{}] * 10)
            case "by copy":
                await client.enqueue_many("p", [{}] * 300)
            case "keyed":
                await client.enqueue("p", {}, key="k")
            case "queue":
                await client.queue(drafts)
            case _:
                async with (
                    await AsyncConnection.connect(url, autocommit=True) as connection,
                    connection.transaction(),
                ):
                    await client.enqueue("p", {}, connection=connection)

    async with Regente(url, settings=settings, pipelines=registry) as client:
        if way == "queue":
            drafts.append(await client.enqueue("p", {}, draft=True))
        storing = asyncio.create_task(store(client))
        queued = "SELECT count(*) FROM regente.tasks WHERE status = 'queued'"
        await until(lambda: one(sql, queued)["count"] > 0)
        assert waits_for_a_standby(sql)
        no_standby()
        await storing


@pytest.mark.usefixtures("app")
async def test_a_burst_of_commits_sends_few_hints(
    open_app: OpenApp, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One hint at a time within the budget; those that wait for it are merged by level."""
    monkeypatch.setattr(hints, "BURST", 2)
    monkeypatch.setattr(hints, "EVERY_SECONDS", 3600.0)
    client = await open_app()
    for n in range(50):
        await client.enqueue("p", {"n": n}, priority=n % 2, key=f"k{n}" if n % 3 else None)
    await client.stop()
    client.start()
    await until(lambda: len(heard) >= 2 and set(heard) == {("p", 0), ("p", 1)})
    assert len(heard) <= 8


async def test_a_caller_that_ends_at_once_has_sent_its_hints(
    open_app: OpenApp, heard: Heard
) -> None:
    """`stop` sends what is due."""
    client = await open_app()
    await client.enqueue_many("p", [{}] * 3, priority=7)
    await client.stop()
    client.start()
    await until(lambda: set(heard) == {("p", 7)})


async def test_the_hint_of_a_callers_transaction_follows_its_commit(
    app: Regente, heard: Heard, database_url: str
) -> None:
    """Not before it, and not at all after a rollback."""
    async with await AsyncConnection.connect(database_url, autocommit=True) as connection:
        with contextlib.suppress(ZeroDivisionError):
            async with connection.transaction():
                await app.enqueue("p", {}, priority=1, connection=connection)
                raise ZeroDivisionError
        async with connection.transaction():
            await app.enqueue("p", {}, priority=2, connection=connection)
            await app.enqueue("p", {}, priority=3)
            await until(lambda: heard == [("p", 3)])
        await until(lambda: heard == [("p", 3), ("p", 2)])
    await until(lambda: not app._hints._open)
    assert ("p", 1) not in heard


async def test_a_hint_names_an_open_transaction_only_until_it_is_too_old(
    app: Regente, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that stays open for long is forgotten; polls find its tasks."""
    monkeypatch.setattr(hints, "GIVE_UP_SECONDS", 0.0)
    async with (
        await AsyncConnection.connect(database_url, autocommit=True) as connection,
        connection.transaction(),
    ):
        await app.enqueue("p", {}, connection=connection)
        await until(lambda: not app._hints._open)


async def test_a_lost_hint_costs_one_poll(
    app: Regente, open_app: OpenApp, ran: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: the process died between the commit and the hint."""
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.1)
    client = await open_app()
    async with running(app):
        await until(lambda: app._runner is not None and app._runner._listener.listening)
        for name in ("send", "send_after"):
            monkeypatch.setattr(client._hints, name, lambda *_: None)
        monkeypatch.setattr(client._hints, "may_send", lambda: False)
        await client.enqueue("p", {"n": "lost"})
        await client.enqueue("p", {"n": "lost with another priority"}, priority=3)
        await until(lambda: sorted(ran) == ["lost", "lost with another priority"])
