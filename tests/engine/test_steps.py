"""Durable steps: called once in a task's life, with the same result type at every replay."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from regente import Fatal, Regente, Retry, Transient
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Sql, column, many, one, task_row

FAST = Retry(max_attempts=3, first=0.01, jitter=False)


class Offer(BaseModel):
    name: str
    price: Decimal
    at: datetime


@dataclass(frozen=True)
class Point:
    x: int
    y: float


class Colour(Enum):
    RED = "red"


class NoSchema:
    """A type for which pydantic has no schema."""


async def an_offer() -> Offer:
    return Offer(name="chair", price=Decimal("9.90"), at=datetime(2026, 1, 2, tzinfo=UTC))


def a_point() -> Point:
    return Point(1, 2.5)


def points() -> list[Point]:
    return [Point(1, 1.0), Point(2, 2.0)]


def by_name() -> dict[str, Offer]:
    return {"a": Offer(name="a", price=Decimal(1), at=datetime(2026, 1, 1, tzinfo=UTC))}


def a_tuple() -> tuple[int, str]:
    return (1, "a")


def a_set() -> set[int]:
    return {1, 2}


def a_date() -> date:
    return date(2026, 1, 2)


def a_colour() -> Colour:
    return Colour.RED


def maybe() -> Point | None:
    return None


def nothing() -> None:
    return None


def untyped():  # type: ignore[no-untyped-def]
    return {"a": [1, None, True, 1.5, "x"]}


def plain() -> int:
    return 7


def wrongly_annotated() -> NoSchema:
    return {"a": 1}  # type: ignore[return-value]


def lazily() -> Awaitable[int]:
    async def later() -> int:
        return 5

    return later()


class Callable7:
    def __call__(self) -> Point:
        return Point(7, 7.0)


VALUES: list[tuple[Callable[..., Any], Any]] = [
    (an_offer, Offer(name="chair", price=Decimal("9.90"), at=datetime(2026, 1, 2, tzinfo=UTC))),
    (a_point, Point(1, 2.5)),
    (points, [Point(1, 1.0), Point(2, 2.0)]),
    (by_name, {"a": Offer(name="a", price=Decimal(1), at=datetime(2026, 1, 1, tzinfo=UTC))}),
    (a_tuple, (1, "a")),
    (a_set, {1, 2}),
    (a_date, date(2026, 1, 2)),
    (a_colour, Colour.RED),
    (maybe, None),
    (nothing, None),
    (untyped, {"a": [1, None, True, 1.5, "x"]}),
    (plain, 7),
    (wrongly_annotated, {"a": 1}),
    (lazily, 5),
    (partial(a_point), Point(1, 2.5)),
    (Callable7(), Point(7, 7.0)),
]


@pytest.mark.parametrize(
    ("function", "value"), VALUES, ids=[getattr(f, "__name__", type(f).__name__) for f, _ in VALUES]
)
async def test_a_result_has_its_declared_type_at_the_first_run_and_at_replay(
    app: Regente, registry: Registry, function: Callable[..., Any], value: Any
) -> None:
    """Q6: pydantic models, dataclasses and collections of them."""
    got: list[Any] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        got.append(await task.step("A", function))
        if task.attempt == 1:
            raise Transient("once more")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (await app.get(task_id)).status == "completed"
    assert got == [value, value]
    assert type(got[0]) is type(got[1]) is type(value)


async def test_a_step_is_called_once_over_all_attempts(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q6, I2: a paid call is not paid again."""
    calls: list[str] = []

    async def work(name: str, *, suffix: str = "") -> str:
        calls.append(name)
        return name + suffix

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[str]:
        first = await task.step("A", work, "a", suffix="!")
        if task.attempt == 1:
            raise Transient("after A")
        second = await task.step("B", work, "b")
        if task.attempt == 2:
            raise Transient("after B")
        return [first, second, str(await task.done("A")), str(await task.done("C"))]

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert calls == ["a", "b"]
    assert (await app.get(task_id)).result == ["a!", "b", "True", "False"]
    rows = many(sql, "SELECT name, attempt FROM regente.steps ORDER BY name")
    assert rows == [{"name": "A", "attempt": 1}, {"name": "B", "attempt": 2}]
    assert task_row(sql, task_id)["checkpoint"] == "B"


async def test_one_name_called_again_is_another_step(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q6: a loop over pages records each of them."""
    calls: list[int] = []

    def page(number: int) -> int:
        calls.append(number)
        return number * 10

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[int]:
        found = [await task.step("PAGE", page, number) for number in range(3)]
        if task.attempt == 1:
            raise Transient("late")
        return found

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (calls, (await app.get(task_id)).result) == ([0, 1, 2], [0, 10, 20])
    assert column(sql, "SELECT name FROM regente.steps ORDER BY name") == [
        "PAGE",
        "PAGE#2",
        "PAGE#3",
    ]


@pytest.mark.parametrize("name", ["PAGE#2", "CHECK[3].STORE"])
async def test_a_name_as_repetitions_and_items_have_is_refused(
    app: Regente, registry: Registry, name: str
) -> None:
    """Z4: it would be recorded under the key of another call."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await task.step(name, lambda: 1)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    [failure] = await app.failures(task_id)
    assert name in failure["message"]
    assert "cannot name a step" in failure["message"]


async def test_an_error_in_a_step_names_it_and_records_nothing(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """W4, Z4: the failure names the step."""

    def broken() -> None:
        raise Fatal("no", code="BROKEN")

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await task.step("GOOD", lambda: 1)
        await task.step("BAD", broken)

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert column(sql, "SELECT name FROM regente.steps") == ["GOOD"]
    failure = one(sql, "SELECT step, stack FROM regente.failures")
    assert failure["step"] == "BAD"
    assert "in broken" in failure["stack"]


async def test_a_synchronous_step_does_not_block_the_event_loop(
    app: Regente, registry: Registry
) -> None:
    """W8: ten blocking steps run in parallel, each in a thread with the task's context."""
    from regente.engine.log import task_fields

    together = threading.Barrier(10, timeout=20)
    known: list[Any] = []

    def block() -> str:
        together.wait()
        known.append(task_fields()["task"])
        return threading.current_thread().name

    @registry.pipeline("p")
    async def run(task: Task) -> str:
        return await task.step("A", block)

    ids = await app.enqueue_many("p", [{}] * 10)
    await app.run(until_idle=True, concurrency=10)
    results = [(await app.get(task_id)).result for task_id in ids]
    assert results == ["step-block"] * 10
    assert sorted(known) == ids


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_step_has_a_time_limit(
    app: Regente, registry: Registry, sql: Sql, kind: str
) -> None:
    """O8: a step that takes too long fails its attempt."""
    never = threading.Event()

    async def forever() -> None:
        await asyncio.Event().wait()

    def blocked() -> None:
        while not never.wait(0.01):
            pass

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> None:
        await task.step("A", forever if kind == "async" else blocked, timeout=0.05)

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert one(sql, "SELECT error_code FROM regente.tasks")["error_code"] == "STEP_TIMEOUT"
    never.set()


async def test_progress_checkpoint_and_heartbeat_are_seen_while_it_runs(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q1, Q7: committed when the call returns."""
    seen: list[dict[str, Any]] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await task.progress(0.25, "PRICE_EXTRACTION_PROGRESS")
        seen.append(task_row(sql, task.id))
        await task.progress(7)
        await task.heartbeat()
        seen.append(task_row(sql, task.id))

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert [(row["progress"], row["checkpoint"]) for row in seen] == [
        (0.25, "PRICE_EXTRACTION_PROGRESS"),
        (1.0, "PRICE_EXTRACTION_PROGRESS"),
    ]
    assert seen[1]["heartbeat_at"] >= seen[0]["heartbeat_at"] >= seen[0]["claimed_at"]


async def test_events_of_the_pipelines_own_are_written_once(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """O17: in the order of the calls, once over all attempts."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        await task.event("scrape_started", url="u")
        await task.event("scrape_started", url="v")
        if task.attempt == 1:
            raise Transient("again")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    found = [event for event in await app.task_events(task_id) if event.event == "scrape_started"]
    assert [event.details for event in found] == [{"url": "u"}, {"url": "v"}]


async def test_the_task_object_has_its_own_data(app: Regente, registry: Registry) -> None:
    """Q1, Q7: id, pipeline, attempt, tries, resumed, batch, and a key that attempts share."""
    seen: list[tuple[Any, ...]] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        seen.append(
            (
                task.id,
                task.pipeline,
                task.attempt,
                task.tries,
                task.resumed,
                task.batch_id,
                task.idempotency_key("A"),
            )
        )
        if task.attempt == 1:
            raise Transient("again")

    batch_id = await app.open_batch("b")
    task_id = await app.enqueue("p", {}, batch=batch_id)
    await app.run(until_idle=True)
    key = seen[0][-1]
    assert re.fullmatch(rf"regente-[0-9a-f-]{{36}}-{task_id}-[0-9a-f]+-A", key)
    assert seen == [
        (task_id, "p", 1, 0, False, batch_id, key),
        (task_id, "p", 2, 1, True, batch_id, key),
    ]
