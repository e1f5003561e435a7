"""`async with task.transaction(name)`: effects and the step's record commit together, once, or not
at all; and no value leaves the block."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Composed

from regente import Regente, Retry, Transient
from regente.engine.errors import InvalidInput, LeaseLost
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.queries import Queries
from tests.engine.helpers import (
    Sql,
    column,
    events_of,
    many,
    one,
    running,
    status_is,
    task_row,
    until,
)

FAST = Retry(max_attempts=3, first=0.01, jitter=False)


@pytest.fixture(autouse=True)
def sink(sql: Sql) -> None:
    """A table without a unique key: duplicates are stored and visible."""
    sql.execute("CREATE TABLE public.sink (task_id bigint, note text)")


def notes(sql: Sql) -> list[str]:
    return column(sql, "SELECT note FROM public.sink ORDER BY note")


INSERT = "INSERT INTO public.sink VALUES (%s, %s)"


async def test_effect_and_record_commit_together_and_once(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2, Z6: a replay applies nothing again."""
    replayed: list[bool] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        replayed.append(await task.done("STORE"))
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, [task.id, "effect"])
        if task.attempt == 1:
            raise Transient("after the commit")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert notes(sql) == ["effect"]
    assert replayed == [False, True]
    step = one(sql, "SELECT name, attempt FROM regente.steps")
    assert step == {"name": "STORE", "attempt": 1}
    same = "SELECT s.xmin = t.xmin AS together FROM regente.steps s, public.sink t"
    assert one(sql, same)["together"], "one transaction wrote both"
    assert (
        task_row(sql, task_id)["checkpoint"],
        events_of(sql, task_id).count("step_completed"),
    ) == ("STORE", 1)


async def test_an_error_inside_rolls_all_of_it_back(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z6: nothing partial is stored, and the next attempt starts from nothing."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, [task.id, f"attempt {task.attempt}"])
            if task.attempt == 1:
                raise Transient("half-way")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (notes(sql), task_row(sql, task_id)["status"]) == (["attempt 2"], "completed")


async def test_a_renamed_block_is_not_repeated(app: Regente, registry: Registry, sql: Sql) -> None:
    """Q6, I2: its record is found under the earlier name."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        name, aliases = ("OLD", []) if task.attempt == 1 else ("NEW", ["OLD"])
        async with task.transaction(name, aliases=aliases) as connection:
            await connection.execute(INSERT, [task.id, "once"])
        if task.attempt == 1:
            raise Transient("once more")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (await app.get(task_id)).status == "completed"
    assert notes(sql) == ["once"]


async def test_a_replay_does_not_ask_the_database(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: the statements of the block are not sent; plain INSERTs need no ON CONFLICT."""
    sql.execute("CREATE UNIQUE INDEX ON public.sink (note)")

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> str:
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, [task.id, "unique"])
            await connection.executemany(INSERT, [[task.id, "many"]])
            if task.attempt == 2:
                await connection.execute("this is not SQL")
        if task.attempt == 1:
            sql.execute("ALTER TABLE public.sink RENAME TO gone")
            raise Transient("after the commit")
        return "done"

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["result"] == "done"
    assert column(sql, "SELECT note FROM public.gone") == ["unique", "many"]


Ask = Callable[[Any], Awaitable[object]]


async def _row(connection: Any) -> object:
    cursor = await connection.execute("INSERT INTO public.sink VALUES (1, 'x') RETURNING task_id")
    return await cursor.fetchone()


async def _count(connection: Any) -> object:
    return (await connection.execute("INSERT INTO public.sink VALUES (1, 'x')")).rowcount


async def _truth(connection: Any) -> object:
    return bool(await connection.execute("SELECT 1"))


async def _rows(connection: Any) -> object:
    return list(await connection.execute("SELECT 1"))


async def _each_row(connection: Any) -> object:
    return [row async for row in await connection.execute("SELECT 1")]


async def _first(connection: Any) -> object:
    return (await connection.execute("SELECT 1"))[0]


async def _many(connection: Any) -> object:
    return (await connection.executemany(INSERT, [[1, "x"]])).rowcount


async def _cursor(connection: Any) -> object:
    return connection.cursor()


async def _savepoint(connection: Any) -> object:
    return connection.transaction()


async def _pipeline(connection: Any) -> object:
    return connection.pipeline()


async def _notifications(connection: Any) -> object:
    return connection.notifies()


async def _server(connection: Any) -> object:
    return connection.info.backend_pid


async def _named_query(connection: Any) -> object:
    return await Queries(Path(__file__)).fetch_all(connection, Composed([SQL("SELECT 1")]))


ASKS = [
    *(_row, _count, _truth, _rows, _each_row, _first, _many),
    *(_cursor, _savepoint, _pipeline, _notifications, _server, _named_query),
]


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ask.__name__)
async def test_the_block_gets_no_results(
    app: Regente, registry: Registry, sql: Sql, ask: Ask
) -> None:
    """I2: refused at the first attempt, with the name of what gives results; nothing is stored."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> object:
        async with task.transaction("STORE") as connection:
            return await ask(connection)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["tries"]) == ("failed", "NO_RESULTS", 1)
    assert "task.transact(" in row["error_message"]
    assert notes(sql) == []


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ask.__name__)
async def test_a_replay_gets_no_results_either(
    app: Regente, registry: Registry, sql: Sql, ask: Ask
) -> None:
    """I2: code that asks at a later attempt only is refused, too."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> object:
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, [task.id, "effect"])
            if task.attempt == 2:
                return await ask(connection)
        raise Transient("after the commit")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["tries"]) == ("failed", "NO_RESULTS", 2)
    assert notes(sql) == ["effect"]


@pytest.mark.parametrize("attempts", [1, 2], ids=["first run", "replay"])
@pytest.mark.parametrize("call", ["enqueue", "enqueue_many", "queue", "release"])
async def test_what_returns_ids_is_refused(
    app: Regente, registry: Registry, sql: Sql, call: str, attempts: int
) -> None:
    """I1, I2: the child of a replay would have an invented id."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        async with task.transaction("SPREAD") as connection:
            if task.attempt == attempts:
                given: tuple[Any, ...] = {
                    "enqueue": ("p", {}),
                    "enqueue_many": ("p", [{}]),
                    "queue": ([1],),
                    "release": ([1],),
                }[call]
                await getattr(app, call)(*given, connection=connection)
        raise Transient("after the commit")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["tries"]) == ("failed", "NO_RESULTS", attempts)
    assert column(sql, "SELECT id FROM regente.tasks") == [task_id]


async def test_a_refusal_that_the_block_catches_has_stored_nothing(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: it is refused before anything is sent."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        async with task.transaction("SPREAD") as connection:
            with pytest.raises(InvalidInput):
                await app.enqueue("p", {}, connection=connection)  # type: ignore[arg-type]

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["status"] == "completed"
    assert column(sql, "SELECT id FROM regente.tasks") == [task_id]


@pytest.mark.parametrize("savepoint", [False, True])
async def test_an_error_that_the_block_catches_still_fails_it(
    app: Regente, registry: Registry, sql: Sql, savepoint: bool
) -> None:
    """I2: a replay would not meet the error, so what the block learnt from it does not stay."""
    sql.execute("CREATE UNIQUE INDEX ON public.sink (note)")
    sql.execute(INSERT, [0, "taken"])

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> bool:
        taken = False
        async with task.transaction("STORE") as connection:
            if savepoint:
                await connection.execute("SAVEPOINT before")
            try:
                await connection.execute(INSERT, [task.id, "taken"])
            except psycopg.errors.UniqueViolation:
                taken = True
                if savepoint:
                    await connection.execute("ROLLBACK TO before")
        return taken

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"]) == ("failed", "UniqueViolation")
    assert many(sql, "SELECT name FROM regente.steps") == []


@pytest.mark.parametrize("attempts", [1, 2], ids=["first run", "replay"])
async def test_the_connection_ends_with_the_block(
    app: Regente, registry: Registry, sql: Sql, attempts: int
) -> None:
    """I2: another task may have the connection by then."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, [task.id, "inside"])
        if task.attempt == attempts:
            await connection.execute(INSERT, [task.id, "outside"])
        raise Transient("after the commit")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["error_code"], row["tries"]) == ("TRANSACTION_OVER", attempts)
    assert notes(sql) == ["inside"]


async def test_an_event_inside_is_committed_once(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I6: with the transaction, and not again by the replay."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await task.event("stored", connection=connection, by=task.attempt)
        if task.attempt == 1:
            raise Transient("after the commit")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["status"] == "completed"
    details = column(sql, "SELECT details FROM regente.events WHERE event = 'stored'")
    assert details == [{"by": 1}]


async def test_all_kinds_of_placeholders(app: Regente, registry: Registry, sql: Sql) -> None:
    """Plain SQL on the connection: `%s`, `%(name)s` or `$1`, and none at all."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, (task.id, "a percent"))
            await connection.execute(
                "INSERT INTO public.sink VALUES ($1, $2)", [task.id, "b dollar"]
            )
            await connection.execute(
                "INSERT INTO public.sink VALUES (%(id)s, %(note)s)",
                {"id": task.id, "note": "c named"},
            )
            await connection.execute("INSERT INTO public.sink VALUES (1, 'd 100%')")
            await connection.execute(
                "INSERT INTO public.sink SELECT 1, %s WHERE 'x$1' LIKE 'x%%'", ["e both"]
            )
            await connection.executemany(INSERT, [(task.id, "f many"), (task.id, "g many")])
            await connection.executemany(
                "INSERT INTO public.sink VALUES ($1, $2)", [(task.id, "h many dollars")]
            )

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["error_message"] is None
    assert notes(sql) == [
        *("a percent", "b dollar", "c named", "d 100%", "e both"),
        *("f many", "g many", "h many dollars"),
    ]


async def test_an_sql_error_is_the_pipelines_own(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z3: a violated constraint fails the attempt under its own name."""
    sql.execute("ALTER TABLE public.sink ADD CHECK (note <> 'bad')")

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, [task.id, "bad"])

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"]) == ("failed", "CheckViolation")


async def test_a_task_that_was_taken_over_commits_nothing(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2, I3: `LeaseLost` inside rolls the effect back, also past an `except Exception`."""
    inside, go_on = asyncio.Event(), asyncio.Event()
    outcome: list[str] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        try:
            async with task.transaction("STORE") as connection:
                await connection.execute(INSERT, [task.id, f"attempt {task.attempt}"])
                inside.set()
                await go_on.wait()
        except Exception:
            outcome.append("swallowed")
        except LeaseLost:
            outcome.append("lost")
            raise

    task_id = await app.enqueue("p", {})
    async with running(app):
        await inside.wait()
        sql.execute("UPDATE regente.tasks SET attempt = attempt + 1")
        go_on.set()
        await until(lambda: outcome == ["lost"])
        assert notes(sql) == []
        sql.execute("UPDATE regente.tasks SET status = 'queued', runner_id = NULL")
        await status_is(app, task_id, "completed")
    assert notes(sql) == ["attempt 3"]


async def test_a_lost_database_costs_no_attempt(app: Regente, registry: Registry, sql: Sql) -> None:
    """F3, I7: infrastructure errors charge no try."""

    @registry.pipeline("p", retry=Retry(max_attempts=1, first=0.01))
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, [task.id, f"attempt {task.attempt}"])
            if task.attempt <= 2:
                await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"], notes(sql)) == ("completed", 0, ["attempt 3"])


async def test_a_statement_that_was_canceled_is_no_lost_database(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I7: a statement timeout of the pipeline is its own failure, and counts."""

    @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01))
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await connection.execute("SET LOCAL statement_timeout = '10ms'")
            await connection.execute("SELECT pg_sleep(10)")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"], row["error_code"]) == ("failed", 2, "QueryCanceled")


async def test_more_transactions_than_connections_wait_their_turn(
    database_url: str, registry: Registry, sql: Sql
) -> None:
    """I10, F11: connections ≤ pool; the engine's own statements are not delayed by them."""
    from regente.settings import Settings

    busy, most = 0, 0

    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> None:
        nonlocal busy, most
        async with task.transaction("STORE") as connection:
            busy += 1
            most = max(most, busy)
            await connection.execute(INSERT, [task.id, "x"])
            busy -= 1

    settings = Settings(sweep_seconds=0.2, database_pool_size=2)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        await app.enqueue_many("p", [{}] * 100)
        await app.run(until_idle=True, concurrency=50)
    assert most <= 2
    assert len(notes(sql)) == 100
