"""`app.wait`: a program waits for a task's result. `on_complete`: a task follows a batch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regente import Fatal, NotFound, Regente, Retry, Skip, TaskFailed, UnknownPipeline
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog import batches
from tests.engine.helpers import Sql, column, many, running, until


@pytest.fixture
def told(registry: Registry) -> Registry:
    @registry.pipeline("told", retry=Retry(max_attempts=1))
    async def run(task: Task[dict[str, Any]]) -> Any:
        if task.args.get("fail"):
            raise Fatal("broken", code="BROKEN")
        if task.args.get("skip"):
            raise Skip("nothing to do")
        return task.args.get("n")

    return registry


@pytest.fixture
def closings(registry: Registry) -> list[Any]:
    """What the pipeline `closed` was called with."""
    seen: list[Any] = []

    @registry.pipeline("closed")
    async def closed(task: Task[dict[str, Any]]) -> None:
        seen.append(task.args)

    return seen


async def test_a_program_waits_for_a_result(app: Regente, told: Registry) -> None:
    task_id = await app.enqueue("told", {"n": 7})
    waiting = asyncio.create_task(app.wait(task_id, timeout=30))
    async with running(app):
        assert await waiting == 7
    assert await app.wait(task_id) == 7  # also when it has ended before


async def test_many_callers_wait_for_many_tasks(app: Regente, told: Registry) -> None:
    ids = await app.enqueue_many("told", [{"n": n} for n in range(200)])
    async with running(app):
        waits = (app.wait(task_id, timeout=30) for task_id in ids * 2)
        assert await asyncio.gather(*waits) == list(range(200)) * 2


async def test_a_failed_task_raises_what_it_failed_with(app: Regente, told: Registry) -> None:
    failing, skipped = await app.enqueue_many("told", [{"fail": True}, {"skip": True}])
    canceled = await app.enqueue("told", {})
    await app.cancel(canceled)
    await app.run(until_idle=True)
    with pytest.raises(TaskFailed, match="BROKEN: broken") as caught:
        await app.wait(failing)
    assert caught.value.task.id == failing
    with pytest.raises(TaskFailed, match="canceled"):
        await app.wait(canceled)
    assert await app.wait(skipped) is None


async def test_a_wait_ends_with_its_timeout(app: Regente, told: Registry) -> None:
    task_id = await app.enqueue("told", {})
    with pytest.raises(TimeoutError):
        await app.wait(task_id, timeout=0.05)
    with pytest.raises(NotFound):
        await app.wait(4711)


async def test_a_task_follows_a_batch_each_time_it_closes(
    app: Regente, sql: Sql, told: Registry, closings: list[Any]
) -> None:
    """I9: once per closing, also when batches are reviewed again and again."""
    batch = await app.open_batch("monday", on_complete="closed")
    await app.enqueue_many("told", [{"n": 1}, {"fail": True}], batch=batch)
    async with running(app):
        await until(lambda: len(closings) == 1)
        failed = column(sql, "SELECT id FROM regente.tasks WHERE status = 'failed'")
        assert await app.reprocess_batch(batch) == failed
        await until(lambda: len(closings) == 2)
    about = {"batch_id": batch, "batch": "monday", "status": "completed"}
    assert closings == [{**about, "closing": 1}, {**about, "closing": 2}]
    followers = many(sql, "SELECT batch_id FROM regente.tasks WHERE pipeline = 'closed'")
    assert [row["batch_id"] for row in followers] == [None, None]


async def test_a_run_until_idle_includes_what_follows_a_batch(
    app: Regente, told: Registry, closings: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "GATHER_SECONDS", 5.0)
    batch = await app.open_batch("monday", on_complete="closed")
    await app.enqueue("told", {}, batch=batch)
    await app.run(until_idle=True)
    assert [one["batch_id"] for one in closings] == [batch]


async def test_a_canceled_batch_is_followed_by_none(
    app: Regente, sql: Sql, told: Registry, closings: list[Any]
) -> None:
    batch = await app.open_batch("monday", on_complete="closed")
    await app.enqueue_many("told", [{}, {}], batch=batch)
    await app.cancel_batch(batch)
    other = await app.open_batch("tuesday", on_complete="closed")
    await app.enqueue("told", {}, batch=other)
    async with running(app):
        await until(lambda: closings != [])
    assert [one["batch"] for one in closings] == ["tuesday"]


async def test_an_unknown_follower_is_refused(app: Regente, told: Registry) -> None:
    with pytest.raises(UnknownPipeline):
        await app.open_batch("monday", on_complete="unknown")
