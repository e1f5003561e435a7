"""The answer to a COMMIT is lost with the connection: what was committed is not done again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from regente import Regente, Task, TaskConnection
from regente.engine.pipeline import Registry
from regente.engine.retry import Retry
from regente.settings import Settings
from tests.engine.helpers import Sql, column, one, running, status_is, task_row, until
from tests.support.tcp_proxy import TcpProxy

WAITING = "SELECT count(*) AS backends FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
SLOW_COMMIT = """
CREATE TABLE public.orders (id int GENERATED ALWAYS AS IDENTITY, attempt int);
CREATE OR REPLACE FUNCTION public.slow_commit() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON public.orders DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION public.slow_commit()
"""


@pytest.fixture
def database_url(fresh_database: str) -> str:
    """A database of the test's own: connections that were cut are still open at its end."""
    return fresh_database


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(database_url).serving() as serving:
        yield serving


async def by_transact(task: Task) -> int:
    async def insert(connection: TaskConnection) -> int:
        cursor = await connection.execute(
            "INSERT INTO public.orders (attempt) VALUES (%s) RETURNING id", [task.attempt]
        )
        return int((await cursor.fetchone())[0])

    return await task.transact("STORE", insert)


async def by_transaction(task: Task) -> int:
    async with task.transaction("STORE") as connection:
        await connection.execute("INSERT INTO public.orders (attempt) VALUES (%s)", [task.attempt])
    return 1


@pytest.mark.parametrize("store", [by_transact, by_transaction])
async def test_what_was_committed_is_not_done_again(
    store: Callable[[Task], Awaitable[int]],
    proxy: TcpProxy,
    registry: Registry,
    settings: Settings,
    sql: Sql,
) -> None:
    """F7, I2, I7: the next attempt finds the effect with its result, and no try was charged."""
    sql.execute(SLOW_COMMIT)

    @registry.pipeline("p", retry=Retry(max_attempts=1, first=0.01))
    async def run(task: Task) -> int:
        return await store(task)

    async with Regente(proxy.url, settings=settings, pipelines=registry) as app:
        sql.execute("SELECT pg_advisory_lock(4711)")
        task_id = await app.enqueue("p", {})
        async with running(app):
            await until(lambda: one(sql, WAITING)["backends"] == 1)
            proxy.take_away()
            sql.execute("SELECT pg_advisory_unlock(4711)")
            await until(lambda: column(sql, "SELECT id FROM public.orders") == [1])
            proxy.bring_back()
            await status_is(app, task_id, "completed")
    row = task_row(sql, task_id)
    assert (row["result"], row["tries"], row["attempt"]) == (1, 0, 2)
    assert one(sql, "SELECT id, attempt FROM public.orders") == {"id": 1, "attempt": 1}
    assert column(sql, "SELECT code FROM regente.failures") == ["DATABASE_LOST"]


@pytest.mark.parametrize("store", [by_transact, by_transaction])
async def test_what_was_not_committed_is_done_again(
    store: Callable[[Task], Awaitable[int]],
    proxy: TcpProxy,
    registry: Registry,
    settings: Settings,
    sql: Sql,
) -> None:
    """F7, I1, I2, I7: the other outcome of the same loss."""
    sql.execute(SLOW_COMMIT)

    @registry.pipeline("p", retry=Retry(max_attempts=1, first=0.01))
    async def run(task: Task) -> None:
        await store(task)

    async with Regente(proxy.url, settings=settings, pipelines=registry) as app:
        sql.execute("SELECT pg_advisory_lock(4711)")
        task_id = await app.enqueue("p", {})
        async with running(app):
            await until(lambda: one(sql, WAITING)["backends"] == 1)
            proxy.take_away()
            sql.execute("SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted")
            await until(lambda: one(sql, WAITING)["backends"] == 0)
            sql.execute("SELECT pg_advisory_unlock(4711)")
            proxy.bring_back()
            await status_is(app, task_id, "completed")
    assert (task_row(sql, task_id)["tries"], task_row(sql, task_id)["attempt"]) == (0, 2)
    assert column(sql, "SELECT attempt FROM public.orders") == [2]
