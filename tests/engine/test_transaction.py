"""`task.transaction`: the effect and the step's record commit together, once, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regente import Regente, Retry, Transient
from regente.engine.errors import LeaseLost
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Sql, column, events_of, one, running, status_is, task_row, until

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
    """I2, Z6: a replay returns the recorded result and applies nothing again."""
    replayed: list[bool] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        replayed.append(await task.done("STORE"))
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, [task.id, "effect"])
            cursor = await connection.execute("SELECT count(*) FROM public.sink")
            replayed.append((await cursor.fetchone())[0])
        if task.attempt == 1:
            raise Transient("after the commit")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert notes(sql) == ["effect"]
    assert replayed == [False, 1, True, 2], "the replay sees its own insert, which is rolled back"
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


async def test_a_replay_that_clashes_with_its_own_first_run_is_no_error(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: plain INSERTs under a unique key need no ON CONFLICT."""
    sql.execute("CREATE UNIQUE INDEX ON public.sink (note)")

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> str:
        async with task.transaction("STORE") as connection:
            await connection.execute(INSERT, [task.id, "unique"])
        if task.attempt == 1:
            raise Transient("after the commit")
        return "done"

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (task_row(sql, task_id)["result"], notes(sql)) == ("done", ["unique"])


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
            async with connection.transaction():
                await connection.execute(INSERT, (task.id, "f nested"))
            cursor = await connection.execute(
                "SELECT note FROM public.sink WHERE note > $1 ORDER BY note", ["c"]
            )
            assert [row[0] for row in await cursor.fetchall()] == [
                "c named",
                "d 100%",
                "e both",
                "f nested",
            ]

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["error_message"] is None
    assert notes(sql) == ["a percent", "b dollar", "c named", "d 100%", "e both", "f nested"]


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
                one(sql, "SELECT pg_terminate_backend(%s)", connection.info.backend_pid)
                await connection.execute("SELECT 1")

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
