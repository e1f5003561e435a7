"""Pipelines that misbehave fail their own task only, and no slot of the runner is lost."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from regente import Fatal, Regente, Retry, Skip, Throttled, Transient
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Sql, column, many, one, running, status_is, task_row, until

ONCE = Retry(max_attempts=1)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class OwnBase(BaseException):
    """A library's own control-flow exception, below BaseException."""


def boom(error: BaseException | Callable[[], BaseException]) -> Callable[[Task], Any]:
    async def raises(task: Task) -> None:
        raise error if isinstance(error, BaseException) else error()

    return raises


async def exits_in_a_step(task: Task) -> None:
    await task.step("EXIT", sys.exit, 3)


async def strange_snapshot(task: Task) -> None:
    task.snapshot("na\x00me\ud800", b"body", "text/\x00html")
    raise Transient("with a strange snapshot")


async def strange_step(task: Task) -> None:
    await task.step("na\x00me", lambda: 1)


async def surrogate_step(task: Task) -> None:
    await task.step("\ud800", lambda: 1)


async def surrogate_checkpoint(task: Task) -> None:
    await task.progress(0.5, "\udfff")


async def strange_event(task: Task) -> None:
    await task.event("a\x00b", note="x")


async def long_step(task: Task) -> None:
    await task.step(os.urandom(4000).hex(), lambda: 1)


async def huge_result(task: Task) -> str:
    return "x" * (65 * 1024 * 1024)


async def no_json(task: Task) -> object:
    return object()


async def no_json_step(task: Task) -> None:
    await task.step("A", object)


async def nul_result(task: Task) -> dict[str, str]:
    return {"a": "\x00"}


POISON: dict[str, Callable[[Task], Any]] = {
    "sys.exit": boom(SystemExit(3)),
    "own BaseException": boom(OwnBase("strange")),
    "group of BaseExceptions": boom(BaseExceptionGroup("g", [OwnBase("strange")])),
    "sys.exit in a step": exits_in_a_step,
    "unprintable error": boom(Unprintable()),
    "StopIteration": boom(StopIteration()),
    "code is no text": boom(Fatal("not found", code=404)),  # type: ignore[arg-type]
    "details are no dict": boom(Fatal("x", details=["a"])),  # type: ignore[arg-type]
    "details of a skip are no dict": boom(Skip("x", details=["a"])),  # type: ignore[arg-type]
    "details are no JSON": boom(Fatal("x", details={"a": object(), "\x00": "\ud800"})),
    "retry_after is text": boom(lambda: Throttled(retry_after="soon")),  # type: ignore[arg-type]
    "retry_after is infinite": boom(lambda: Throttled(retry_after=float("inf"))),
    "message with NUL": boom(Transient("a\x00b\ud800c")),
    "message of 10 MB": boom(Transient("x" * 10_000_000)),
    "strange snapshot": strange_snapshot,
    "step name with NUL": strange_step,
    "step name with a surrogate": surrogate_step,
    "checkpoint with a surrogate": surrogate_checkpoint,
    "event name with NUL": strange_event,
    "step name of 8,000 characters": long_step,
    "result of 65 MB": huge_result,
    "result is no JSON": no_json,
    "step's result is no JSON": no_json_step,
    "result with NUL": nul_result,
}


@pytest.mark.parametrize("name", POISON)
async def test_poison_ends_as_a_dead_letter_and_its_neighbours_are_untouched(
    app: Regente, registry: Registry, sql: Sql, name: str
) -> None:
    """F15, Z8, W8: one bad task fails or is skipped with a reason; the others complete."""
    gate = asyncio.Event()

    @registry.pipeline("poison", retry=ONCE)
    async def poison(task: Task) -> Any:
        await gate.wait()
        return await POISON[name](task)

    @registry.pipeline("good", retry=ONCE)
    async def good(task: Task) -> int:
        await gate.wait()
        return await task.step("A", lambda: 1)

    @registry.pipeline("bad", retry=ONCE)
    async def bad(task: Task) -> None:
        await gate.wait()
        raise Fatal("an honest failure", code="HONEST")

    poison_id = await app.enqueue("poison", {})
    await app.enqueue_many("good", [{}] * 10)
    await app.enqueue_many("bad", [{}] * 10)
    async with running(app, concurrency=30):
        await until(lambda: app._runner is not None and app._runner.running_count == 21)
        gate.set()
        await status_is(app, poison_id, "failed", "skipped")
        await until(lambda: app._runner is not None and app._runner.running_count == 0)
    assert (
        column(sql, "SELECT status::text FROM regente.tasks WHERE pipeline = 'good'")
        == ["completed"] * 10
    )
    assert column(sql, "SELECT DISTINCT error_code FROM regente.tasks WHERE pipeline = 'bad'") == [
        "HONEST"
    ]
    row = task_row(sql, poison_id)
    if row["status"] == "failed":
        assert row["error_code"]
        assert row["error_message"]
        assert many(sql, "SELECT 1 FROM regente.failures WHERE task_id = %s", poison_id) != []


async def test_many_large_snapshots_at_once_are_all_stored(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z4: together they are larger than one statement should be."""
    gate = asyncio.Event()

    @registry.pipeline("p", retry=ONCE)
    async def run(task: Task) -> None:
        for number in range(4):
            task.snapshot(f"page{number}", b"x" * (2 * 1024 * 1024), "image/png")
        await gate.wait()
        raise Transient("blocked")

    ids = await app.enqueue_many("p", [{}] * 12)
    async with running(app, concurrency=12):
        await until(lambda: app._runner is not None and app._runner.running_count == 12)
        gate.set()
        await until(
            lambda: app._runner is not None and app._runner.running_count == 0, within_seconds=60
        )
    assert set(column(sql, "SELECT error_code FROM regente.tasks")) == {"TRANSIENT"}
    assert one(sql, "SELECT count(*), sum(length(body)) FROM regente.snapshots") == {
        "count": len(ids) * 4,
        "sum": len(ids) * 4 * 2 * 1024 * 1024,
    }
