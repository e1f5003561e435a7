"""`each`: every item once, in order, with bounded concurrency; a retry does only the missing."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import pytest

from regente import Fatal, Regente, Retry, Transient
from regente.engine.database import TaskConnection
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Sql, column, one, task_row

FAST = Retry(max_attempts=3, first=0.01, jitter=False)


@dataclass(frozen=True)
class Parsed:
    number: int


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_results_keep_the_order_of_the_items(
    app: Regente, registry: Registry, concurrency: int
) -> None:
    """Q6: also when later items end first."""
    others: list[asyncio.Event] = [asyncio.Event() for _ in range(10)]

    async def parse(number: int) -> Parsed:
        if concurrency > 1 and number % 2 == 0:
            await others[number + 1].wait()  # the odd ones end first
        others[number].set()
        return Parsed(number)

    got: list[list[Parsed]] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        got.append(await task.each("PARSE", range(10), parse, concurrency=concurrency))

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert got == [[Parsed(number) for number in range(10)]]


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_concurrency_is_bounded_and_used(
    app: Regente, registry: Registry, concurrency: int
) -> None:
    """W1: the limit is kept, and reached."""
    busy, most = 0, 0
    full = asyncio.Event()

    async def work(_: int) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if busy == concurrency:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        busy -= 1

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await task.each("WORK", range(20), work, concurrency=concurrency)

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert most == concurrency


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_later_attempt_does_only_what_is_missing(
    app: Regente, registry: Registry, sql: Sql, concurrency: int
) -> None:
    """Q6: finished items are not done again."""
    calls: list[int] = []

    async def extract(number: int) -> int:
        calls.append(number)
        if number == 5 and calls.count(5) == 1:
            raise Transient("page 5")
        return number * number

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[int]:
        return await task.each("EXTRACT", list(range(8)), extract, concurrency=concurrency)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (await app.get(task_id)).result == [number * number for number in range(8)]
    assert all(calls.count(number) == 1 for number in range(5))
    assert calls.count(5) == 2
    assert sorted(column(sql, "SELECT item FROM regente.steps")) == list(range(8))
    assert task_row(sql, task_id)["progress"] == 1


async def test_an_error_in_one_item_ends_the_others_and_is_the_loops_error(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z2: the item's own error, not a group; the other items are stopped."""
    canceled: list[int] = []

    async def work(number: int) -> None:
        if number == 2:
            raise Fatal("bad item", code="ITEM")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            canceled.append(number)
            raise

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await task.each("WORK", range(5), work, concurrency=3)

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert one(sql, "SELECT error_code FROM regente.tasks")["error_code"] == "ITEM"
    assert canceled == [0, 1]


async def test_synchronous_items_run_in_threads_beside_each_other(
    app: Regente, registry: Registry
) -> None:
    """W8: as many threads as the concurrency allows."""
    together = threading.Barrier(4, timeout=20)

    def work(number: int) -> int:
        together.wait()
        return number

    @registry.pipeline("p")
    async def run(task: Task) -> list[int]:
        return await task.each("WORK", range(8), work, concurrency=4)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (await app.get(task_id)).result == list(range(8))


async def test_an_empty_loop_returns_an_empty_list(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """W9: and records nothing."""

    @registry.pipeline("p")
    async def run(task: Task) -> list[int]:
        return await task.each("WORK", [], abs, concurrency=4)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert ((await app.get(task_id)).result, column(sql, "SELECT name FROM regente.steps")) == (
        [],
        [],
    )


async def test_two_thousand_items_in_one_task(app: Regente, registry: Registry, sql: Sql) -> None:
    """W9: each is durable, and commits are shared."""

    async def work(number: int) -> int:
        return number

    @registry.pipeline("p")
    async def run(task: Task) -> int:
        return sum(await task.each("WORK", range(2_000), work, concurrency=200))

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (await app.get(task_id)).result == sum(range(2_000))
    assert one(sql, "SELECT count(*) FROM regente.steps")["count"] == 2_000


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_steps_inside_an_item_are_the_items_own(
    app: Regente, registry: Registry, sql: Sql, concurrency: int
) -> None:
    """I1, I2: the replay leaves finished items out; the others do not get their results."""
    sql.execute("CREATE TABLE public.sink (id int GENERATED ALWAYS AS IDENTITY, item int)")

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[list[int]]:
        async def handle(item: int) -> list[int]:
            doubled = await task.step("DOUBLE", lambda: item * 2)
            if task.attempt == 1 and item == 2:
                raise Transient("once")

            async def store(connection: TaskConnection) -> int:
                await connection.execute("INSERT INTO public.sink (item) VALUES (%s)", [item])
                return item

            stored = await task.transact("STORE", store)
            async with task.transaction("AGAIN") as connection:
                await connection.execute("INSERT INTO public.sink (item) VALUES (%s)", [10 + item])
            await task.event("handled", item=item)
            inner = await task.each("INNER", [1, 2], lambda number: number * item)
            assert await task.done("OTHER") is False
            return [doubled, stored, *inner]

        return await task.each("HANDLE", [0, 1, 2, 3], handle, concurrency=concurrency)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert row["result"] == [[2 * n, n, n, 2 * n] for n in range(4)], row["error_message"]
    assert sorted(column(sql, "SELECT item FROM public.sink")) == [0, 1, 2, 3, 10, 11, 12, 13]
    told = "SELECT details -> 'item' FROM regente.events WHERE event = 'handled' ORDER BY 1"
    assert column(sql, told) == [0, 1, 2, 3]
    steps = column(sql, "SELECT name FROM regente.steps WHERE name LIKE '%%DOUBLE' ORDER BY name")
    assert steps == [f"HANDLE[{n}].DOUBLE" for n in range(4)]


def double(item: int) -> int:
    return item * 2


def triple(item: int) -> int:
    return item * 3


async def test_a_step_inside_an_item_is_renamed_by_an_alias(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: the earlier name is looked for in the same item."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[int]:
        async def handle(item: int) -> int:
            if task.attempt == 1:
                await task.step("OLD", double, item)
                raise Transient("once")
            return await task.step("NEW", triple, item, aliases=["OLD", "double"])

        return await task.each("HANDLE", [7, 8], handle)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["result"] == [14, 24]
