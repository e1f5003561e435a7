"""Cancel: waiting tasks end at once, running ones soon, also if they swallow their cancellation."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from regente import Regente, Retry, Transient
from regente.engine import runner as runner_module
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.threads import StepCanceled
from regente.engine.watchdog.reaper import Reaper
from tests.engine.helpers import Sql, SqlRunner, events_of, running, status_is, task_row, until


@pytest.fixture(autouse=True)
def short_cancel_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coroutine may ignore its cancellation for a short time only."""
    monkeypatch.setattr(runner_module, "LAST_WRITES_SECONDS", 0.2)


async def canceled(app: Regente, task_id: int, at_work: Any) -> None:
    async with running(app):
        await until(at_work)
        assert await app.cancel(task_id) == "canceling"
        await status_is(app, task_id, "canceled")


async def test_a_queued_task_is_never_run(app: Regente, registry: Registry, sql: Sql) -> None:
    """O12: canceled in the queue."""
    ran: list[int] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        ran.append(task.id)

    first, second = await app.enqueue_many("p", [{}, {}])
    assert await app.cancel(first) == "canceled"
    await app.run(until_idle=True)
    assert ran == [second]
    assert events_of(sql, first) == ["task_queued", "task_canceled"]


async def test_a_running_coroutine_may_clean_up(app: Regente, registry: Registry, sql: Sql) -> None:
    """O12: it gets `CancelledError`, frees its resources, and ends as canceled, not failed."""
    at_work, freed = asyncio.Event(), asyncio.Event()

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            freed.set()

    task_id = await app.enqueue("p", {})
    await canceled(app, task_id, at_work.is_set)
    assert freed.is_set()
    row = task_row(sql, task_id)
    assert (row["tries"], row["error_code"], row["runner_id"], row["cancel_requested_at"]) == (
        0,
        None,
        None,
        None,
    )
    assert events_of(sql, task_id)[-2:] == ["task_cancel_requested", "task_canceled"]


async def test_a_synchronous_step_is_interrupted(app: Regente, registry: Registry) -> None:
    """O12: `StepCanceled` is raised in its thread at the next instruction."""
    at_work, interrupted = threading.Event(), threading.Event()

    def work() -> None:
        at_work.set()
        try:
            while True:
                threading.Event().wait(0.01)
        except StepCanceled:
            interrupted.set()
            raise

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await task.step("WORK", work)

    task_id = await app.enqueue("p", {})
    await canceled(app, task_id, at_work.is_set)
    await until(interrupted.is_set)


async def test_a_step_that_sits_in_c_code_is_left_behind(app: Regente, registry: Registry) -> None:
    """O12: the task ends although its thread cannot."""
    at_work, let_go = threading.Event(), threading.Event()

    def work() -> None:
        at_work.set()
        let_go.wait(30)

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await task.step("WORK", work)

    task_id = await app.enqueue("p", {})
    await canceled(app, task_id, at_work.is_set)
    let_go.set()


async def test_code_that_swallows_its_cancellation_does_not_keep_the_task(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """O12, I3: the outcome is written without it; its later writes are refused."""
    at_work, let_go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    wrote: list[str] = []

    @registry.pipeline("p")
    async def run(task: Task) -> str:
        at_work.set()
        try:
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            wrote.append(await task.step("LATE", lambda: "late"))
        finally:
            ended.set()
        return "completed all the same"

    task_id = await app.enqueue("p", {})
    async with running(app, concurrency=1):
        await at_work.wait()
        await app.cancel(task_id)
        await status_is(app, task_id, "canceled")
        let_go.set()
        await ended.wait()
    assert (wrote, task_row(sql, task_id)["status"]) == ([], "canceled")


async def test_a_coroutine_that_answers_its_cancellation_with_an_error_is_canceled(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """O12: an error raised during cancellation is not retried."""
    at_work = asyncio.Event()

    @registry.pipeline("p", retry=Retry(max_attempts=5, first=0.01))
    async def run(task: Task) -> None:
        at_work.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Transient("the connection broke") from None

    task_id = await app.enqueue("p", {})
    await canceled(app, task_id, at_work.is_set)
    assert task_row(sql, task_id)["attempt"] == 1


async def test_a_task_that_waits_for_its_retry_is_canceled_at_once(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """O12: waiting for a backoff is waiting in the queue."""

    @registry.pipeline("p", retry=Retry(first=3600))
    async def run(task: Task) -> None:
        raise Transient("later")

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(lambda: task_row(sql, task_id)["tries"] == 1)
        assert await app.cancel(task_id) == "canceled"


async def test_a_cancel_requested_from_a_runner_that_dies_is_done_by_the_reaper(
    app: Regente, sql: Sql
) -> None:
    """O12, O14: the task is not run again."""
    sql_runner = SqlRunner.register(sql, ["p"])
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    (task_id,) = sql_runner.claim()
    assert await app.cancel(task_id) == "canceling"
    sql_runner.expire_lease()
    await Reaper(app.database, 60, 3, lambda _: None).run_once()
    assert (task_row(sql, task_id)["status"], events_of(sql, task_id)[-1]) == (
        "canceled",
        "task_canceled",
    )


async def test_a_hundred_running_tasks_are_canceled_at_once(
    app: Regente, registry: Registry
) -> None:
    """O12."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await asyncio.Event().wait()

    ids = await app.enqueue_many("p", [{}] * 100)
    async with running(app, concurrency=100):
        await until(lambda: app._runner is not None and app._runner.running_count == 100)
        assert await app.cancel_many(ids) == {"canceled": 0, "canceling": 100}
        await until(lambda: app._runner is not None and app._runner.running_count == 0)
    assert (await app.counts("p"))["canceled"] == 100
