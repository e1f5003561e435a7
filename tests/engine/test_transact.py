"""`task.transact`: the effect, the step's record and the result commit together, and every replay
has the result that was committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest

from regente import Fatal, Regente, Retry, Transient
from regente.engine.database import TaskConnection
from regente.engine.errors import LeaseLost
from regente.engine.pipeline import Registry
from regente.engine.task import Task
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
ONCE = Retry(max_attempts=1)
INSERT = "INSERT INTO public.orders (note) VALUES ($1) RETURNING id"


@pytest.fixture(autouse=True)
def orders(sql: Sql) -> None:
    """A table without a unique key: duplicates are stored and visible."""
    sql.execute("CREATE TABLE public.orders (id int GENERATED ALWAYS AS IDENTITY, note text)")


def notes(sql: Sql) -> list[str]:
    return column(sql, "SELECT note FROM public.orders ORDER BY id")


async def store(connection: TaskConnection, note: str) -> int:
    cursor = await connection.execute(INSERT, [note])
    return int((await cursor.fetchone())[0])


def fail_once(task: Task) -> None:
    if task.attempt == 1:
        raise Transient("after the commit")


# What a replay had to invent when the body of a `with` ran again.


async def test_a_replay_returns_the_id_of_the_row_that_was_committed(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: `INSERT … RETURNING id`, and the function is not called again."""
    called: list[int] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> int:
        async def insert(connection: TaskConnection) -> int:
            called.append(task.attempt)
            return await store(connection, "chair")

        order = await task.transact("STORE", insert)
        fail_once(task)
        return order

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["result"] == one(sql, "SELECT id FROM public.orders")["id"] == 1
    assert called == [1]
    assert one(sql, "SELECT name, attempt, output FROM regente.steps") == {
        "name": "STORE",
        "attempt": 1,
        "output": 1,
    }
    same = "SELECT s.xmin = t.xmin AS together FROM regente.steps s, public.orders t"
    assert one(sql, same)["together"], "one transaction wrote both"
    assert events_of(sql, task_id).count("step_completed") == 1
    assert task_row(sql, task_id)["checkpoint"] == "STORE"


async def test_a_replay_returns_the_child_that_was_enqueued(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I1, I2: a child enqueued inside commits with the step, and its id is the real one."""

    @registry.pipeline("child")
    async def child(task: Task) -> None:
        pass

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> int:
        async def spread(connection: TaskConnection) -> int:
            return await app.enqueue("child", {}, connection=connection)

        found = await task.transact("SPREAD", spread)
        fail_once(task)
        return found

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    (born,) = column(sql, "SELECT id FROM regente.tasks WHERE pipeline = 'child'")
    assert task_row(sql, task_id)["result"] == born


async def test_a_replay_does_not_meet_its_own_unique_key(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: what the body assigned behind the INSERT is there at every attempt."""
    sql.execute("CREATE UNIQUE INDEX ON public.orders (note)")

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> str:
        async def insert(connection: TaskConnection) -> str:
            order = await store(connection, "chair")
            return f"order {order}"

        label = await task.transact("STORE", insert)
        fail_once(task)
        return label

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["result"], row["tries"]) == ("completed", "order 1", 1)


async def test_a_replay_does_not_check_the_balance_that_it_has_spent(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: a decision inside is made once. The money is taken, and the task completes."""
    sql.execute("CREATE TABLE public.accounts (balance int)")
    sql.execute("INSERT INTO public.accounts VALUES (100)")

    async def pay(connection: TaskConnection) -> int:
        cursor = await connection.execute("SELECT balance FROM public.accounts FOR UPDATE")
        balance = (await cursor.fetchone())[0]
        if balance < 100:
            raise Fatal(f"{balance} is not enough", code="NO_FUNDS")
        cursor = await connection.execute(
            "UPDATE public.accounts SET balance = balance - 100 RETURNING balance"
        )
        return int((await cursor.fetchone())[0])

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> int:
        left = await task.transact("PAY", pay)
        await task.step("SHIP", fail_once, task)
        return left

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["result"], row["error_code"]) == ("completed", 0, None)
    assert column(sql, "SELECT balance FROM public.accounts") == [0]


# The value.


@dataclass
class Receipt:
    number: int
    at: datetime
    lines: tuple[str, ...]


AT = datetime(2026, 7, 1, 12, tzinfo=UTC)


async def receipt(connection: TaskConnection, note: str, *, line: str) -> Receipt:
    return Receipt(await store(connection, note), AT, (line,))


class Shop:
    async def sell(self, connection: TaskConnection, note: str, *, line: str) -> Receipt:
        return await receipt(connection, note, line=line)


@pytest.mark.parametrize(
    "function",
    [receipt, Shop().sell, partial(receipt, line="one")],
    ids=["function", "method", "partial"],
)
async def test_the_result_comes_back_as_its_declared_type(
    app: Regente, registry: Registry, function: Callable[..., Any]
) -> None:
    """I2: the first attempt and its replay have the same value."""
    got: list[Receipt] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        got.append(await task.transact("STORE", function, "chair", line="one"))
        fail_once(task)

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert got == [Receipt(1, AT, ("one",))] * 2


async def test_names_of_arguments_are_free(app: Regente, registry: Registry, sql: Sql) -> None:
    """`name` and `function` may be arguments of the function."""

    async def insert(connection: TaskConnection, name: str, function: str) -> int:
        return await store(connection, f"{name} as {function}")

    @registry.pipeline("p")
    async def run(task: Task) -> int:
        return await task.transact("STORE", insert, name="Ana", function="buyer")

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert notes(sql) == ["Ana as buyer"]


async def test_calls_of_one_name_are_steps_of_their_own(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: a loop of transactions, broken off in the middle, continues there."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[int]:
        found = []
        for number in range(4):
            found.append(await task.transact("STORE", store, f"note {number}"))
            if number == 1:
                fail_once(task)
        return found

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["result"] == [1, 2, 3, 4]
    assert notes(sql) == [f"note {number}" for number in range(4)]


async def _unstorable(connection: TaskConnection) -> object:
    await store(connection, "x")
    return object()


async def _another_type(connection: TaskConnection) -> datetime:
    await store(connection, "x")
    return "no time"  # type: ignore[return-value]


async def _rolls_back(connection: TaskConnection) -> int:
    await store(connection, "x")
    raise psycopg.Rollback()


async def _exits(connection: TaskConnection) -> int:
    await store(connection, "x")
    raise SystemExit(3)


async def _swallows(connection: TaskConnection) -> str:
    await store(connection, "x")
    try:
        await connection.execute("SELECT 1 / 0")
    except psycopg.Error:
        return "never mind"
    return "not reached"


async def _raises(connection: TaskConnection) -> int:
    await store(connection, "x")
    raise Fatal("no", code="NO")


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (_unstorable, "INVALID_OUTPUT"),
        (_another_type, "INVALID_OUTPUT"),
        (_rolls_back, "ROLLED_BACK"),
        (_exits, "SystemExit"),
        (_swallows, "InFailedSqlTransaction"),
        (_raises, "NO"),
    ],
)
async def test_what_has_no_result_is_not_committed(
    app: Regente, registry: Registry, sql: Sql, function: Callable[..., Any], code: str
) -> None:
    """I2, Z6: an error, or a value that could not come back, leaves neither rows nor a step."""

    @registry.pipeline("p", retry=ONCE)
    async def run(task: Task) -> Any:
        return await task.transact("STORE", function)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["tries"]) == ("failed", code, 1)
    assert (notes(sql), many(sql, "SELECT name FROM regente.steps")) == ([], [])


async def test_a_function_that_exits_beside_others_ends_the_attempt_only(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I7, Z6: in an asyncio task of its own, `sys.exit` would end the runner's event loop."""

    @registry.pipeline("p", retry=ONCE)
    async def run(task: Task) -> None:
        await asyncio.gather(task.transact("EXIT", _exits), task.transact("STORE", store, "note"))

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["tries"]) == ("failed", "SystemExit", 1)
    assert "x" not in notes(sql)


async def test_a_savepoint_may_fail_and_the_rest_is_committed(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: inside, everything of psycopg's connection works, and what came of it is recorded."""
    sql.execute("CREATE UNIQUE INDEX ON public.orders (note)")
    sql.execute("INSERT INTO public.orders (note) VALUES ('chair')")

    async def insert(connection: TaskConnection) -> str:
        await store(connection, "table")
        try:
            async with connection.transaction():
                await store(connection, "chair")
        except psycopg.errors.UniqueViolation:
            return "the chair was there"
        return "both are new"

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> str:
        said = await task.transact("STORE", insert)
        fail_once(task)
        return said

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["result"] == "the chair was there"
    assert sorted(notes(sql)) == ["chair", "table"]


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
async def test_a_function_that_ends_the_transaction_itself_is_found_out(
    app: Regente, registry: Registry, sql: Sql, statement: str
) -> None:
    """I2: no step is recorded outside of the transaction of its effect."""

    async def insert(connection: TaskConnection) -> int:
        order = await store(connection, "x")
        await connection.execute(statement)
        return order

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> int:
        return await task.transact("STORE", insert)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"]) == ("failed", "TRANSACTION_ENDED")
    assert many(sql, "SELECT name FROM regente.steps") == []


async def test_a_function_that_is_not_async_is_refused(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Its statements would never run."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        await task.transact("STORE", lambda connection: 1)  # type: ignore[arg-type,return-value]

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["tries"]) == ("failed", "INVALID_INPUT", 1)
    assert "async" in row["error_message"]


# Errors, the fence and the database.


async def test_an_error_inside_rolls_back_and_the_next_attempt_calls_again(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z6: nothing partial is stored."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> int:
        async def insert(connection: TaskConnection) -> int:
            order = await store(connection, f"attempt {task.attempt}")
            fail_once(task)
            return order

        return await task.transact("STORE", insert)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (notes(sql), task_row(sql, task_id)["result"]) == (["attempt 2"], 2)


async def test_an_attempt_that_lost_its_task_commits_nothing(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2, I3: `LeaseLost` rolls the effect back, also past an `except Exception`."""
    inside, go_on = asyncio.Event(), asyncio.Event()
    outcome: list[str] = []

    @registry.pipeline("p")
    async def run(task: Task) -> int | None:
        async def insert(connection: TaskConnection) -> int:
            order = await store(connection, f"attempt {task.attempt}")
            inside.set()
            await go_on.wait()
            return order

        try:
            return await task.transact("STORE", insert)
        except Exception:
            outcome.append("swallowed")
        except LeaseLost:
            outcome.append("lost")
            raise
        return None

    task_id = await app.enqueue("p", {})
    async with running(app):
        await inside.wait()
        sql.execute("UPDATE regente.tasks SET attempt = attempt + 1")
        go_on.set()
        await until(lambda: outcome == ["lost"])
        assert notes(sql) == []
        sql.execute("UPDATE regente.tasks SET status = 'queued', runner_id = NULL")
        await status_is(app, task_id, "completed")
    assert (notes(sql), task_row(sql, task_id)["result"]) == (["attempt 3"], 2)


async def test_an_attempt_that_has_lost_its_task_calls_nothing(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I3: neither the function nor the database is asked."""
    called: list[int] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        async def insert(connection: TaskConnection) -> None:
            called.append(task.attempt)

        if task.attempt == 1:
            task.lose()
        await task.transact("STORE", insert)

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(lambda: task_row(sql, task_id)["status"] == "running" or called)
        sql.execute("UPDATE regente.tasks SET status = 'queued', runner_id = NULL")
        await status_is(app, task_id, "completed")
    assert called == [2]


async def test_a_lost_database_costs_no_attempt(app: Regente, registry: Registry, sql: Sql) -> None:
    """F3, I7: infrastructure errors charge no try."""

    @registry.pipeline("p", retry=Retry(max_attempts=1, first=0.01))
    async def run(task: Task) -> int:
        async def insert(connection: TaskConnection) -> int:
            order = await store(connection, f"attempt {task.attempt}")
            if task.attempt <= 2:
                one(sql, "SELECT pg_terminate_backend(%s)", connection.info.backend_pid)
                await connection.execute("SELECT 1")
            return order

        return await task.transact("STORE", insert)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"], notes(sql)) == ("completed", 0, ["attempt 3"])
    codes = column(sql, "SELECT DISTINCT code FROM regente.failures")
    assert codes == ["DATABASE_LOST"]


async def test_an_event_inside_is_committed_with_it(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I6: with the transaction, or not at all, and once."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        async def insert(connection: TaskConnection) -> None:
            await task.event("sold", connection=connection, attempt=task.attempt)
            fail_once(task)

        await task.transact("STORE", insert)
        if task.attempt == 2:
            raise Transient("after the commit")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert events_of(sql, task_id).count("sold") == 1
    assert column(sql, "SELECT details FROM regente.events WHERE event = 'sold'") == [
        {"attempt": 2}
    ]


async def test_transactions_at_the_same_time_keep_their_results(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: `gather` starts them in order, which numbers them."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[int]:
        found = await asyncio.gather(
            *(task.transact("STORE", store, f"note {number}") for number in range(3))
        )
        fail_once(task)
        return found

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    rows = many(sql, "SELECT id, note FROM public.orders ORDER BY note")
    assert [row["id"] for row in rows] == task_row(sql, task_id)["result"]


# The recorded call.


async def another(connection: TaskConnection, note: str) -> int:
    return await store(connection, note)


async def effects(task: Task) -> None:
    async with task.transaction("STORE") as connection:
        await connection.execute("INSERT INTO public.orders (note) VALUES ('effect')")


Asked = Callable[[Task], Awaitable[object]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda t: t.transact("STORE", store, "a"), lambda t: t.transact("STORE", store, "b")),
        (lambda t: t.transact("STORE", store, "a"), lambda t: t.transact("STORE", another, "a")),
        (lambda t: t.transact("STORE", store, "a"), lambda t: t.step("STORE", lambda: 7)),
        (lambda t: t.transact("STORE", store, "a"), effects),
        (lambda t: t.step("STORE", lambda: 7), lambda t: t.transact("STORE", store, "a")),
        (lambda t: t.step("STORE", lambda: 7), effects),
        (lambda t: t.each("STORE", [1], lambda n: n), lambda t: t.transact("STORE", store, "a")),
        (lambda t: t.each("STORE", [1], lambda n: n), effects),
        (effects, lambda t: t.transact("STORE", store, "a")),
        (effects, lambda t: t.step("STORE", lambda: 7)),
    ],
)
async def test_a_replay_that_asks_for_another_call_is_a_dead_letter(
    app: Regente, registry: Registry, sql: Sql, first: Asked, second: Asked
) -> None:
    """I2: it gets neither the recorded result nor another one, and stores nothing."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        await (first if task.attempt == 1 else second)(task)
        fail_once(task)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["tries"]) == ("failed", "REPLAY_MISMATCH", 2)
    assert len(notes(sql)) <= 1
    assert len(column(sql, "SELECT name FROM regente.steps")) == 1


async def test_a_renamed_function_gets_its_result_by_an_alias(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: renaming has the way that steps have."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> int:
        if task.attempt == 1:
            await task.transact("OLD", store, "a")
            fail_once(task)
        return await task.transact("NEW", another, "a", aliases=["OLD", "store"])

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (task_row(sql, task_id)["result"], notes(sql)) == (1, ["a"])


async def no_result(connection: TaskConnection, note: str) -> None:
    raise AssertionError("called again")


@pytest.mark.parametrize("call", ["NULL", "call"], ids=["older code", "this code"])
@pytest.mark.parametrize("declares", [True, False])
async def test_a_block_that_became_a_function(
    app: Regente, registry: Registry, sql: Sql, call: str, declares: bool
) -> None:
    """I2: a step that was recorded without a result gives none: `-> None` goes on, `-> int` does
    not get a None."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        if task.attempt == 1:
            await effects(task)
            sql.execute(f"UPDATE regente.steps SET call = {call}")
            fail_once(task)
        function: Callable[..., Any] = no_result if declares else store
        assert await task.transact("STORE", function, "a") is None

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    expected = ("completed", None) if declares else ("failed", "REPLAY_MISMATCH")
    assert (row["status"], row["error_code"]) == expected
    assert notes(sql) == ["effect"]
