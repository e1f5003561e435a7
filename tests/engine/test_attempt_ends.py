"""The end of an attempt leaves nothing running: tasks, their children and threads end before it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from regente import Regente, Retry, Transient
from regente.engine.attempt_tasks import AttemptTasks
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.threads import StepCanceled
from tests.engine.helpers import Sql, column, falls_silent, running, status_is, until

FAST = Retry(max_attempts=2, first=0.01, jitter=False)


class Work:
    """Work that ends only when it is cancelled; counts what runs, and what runs beside it."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.started: list[int] = []
        self.beside: list[set[int]] = []

    async def forever(self, attempt: int) -> None:
        self.running.add(attempt)
        self.started.append(attempt)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)  # a cleanup that takes its time
            self.running.discard(attempt)

    def attempt_begins(self) -> None:
        self.beside.append(set(self.running))


async def failing(work: Work) -> None:
    while not work.running:
        await asyncio.sleep(0)
    raise Transient("fails beside the other")


async def gathered(task: Task, work: Work) -> None:
    await asyncio.gather(
        task.step("SLOW", lambda: work.forever(task.attempt)), task.step("FAILS", failing, work)
    )


async def forgotten(task: Task, work: Work) -> None:
    asyncio.create_task(work.forever(task.attempt))  # noqa: RUF006
    await failing(work)


async def grandchildren(task: Task, work: Work) -> None:
    async def child() -> None:
        asyncio.create_task(work.forever(task.attempt))  # noqa: RUF006

    await asyncio.create_task(child())
    await failing(work)


async def in_a_group(task: Task, work: Work) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(work.forever(task.attempt))
        group.create_task(failing(work))


async def made_while_it_ends(task: Task, work: Work) -> None:
    async def parent() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.create_task(work.forever(task.attempt))  # noqa: RUF006
            await asyncio.sleep(0)

    asyncio.create_task(parent())  # noqa: RUF006
    await asyncio.sleep(0)
    raise Transient("leaves a parent behind")


async def swallowing_once(task: Task, work: Work) -> None:
    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await work.forever(task.attempt)

    asyncio.create_task(stubborn())  # noqa: RUF006
    await asyncio.sleep(0)
    raise Transient("leaves a stubborn one behind")


async def in_a_context_of_the_attempt(task: Task, work: Work) -> None:
    context = contextvars.copy_context()
    asyncio.create_task(work.forever(task.attempt), context=context)  # noqa: RUF006
    await failing(work)


WAYS: list[Callable[[Task, Work], Awaitable[None]]] = [
    gathered,
    forgotten,
    grandchildren,
    in_a_group,
    made_while_it_ends,
    swallowing_once,
    in_a_context_of_the_attempt,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_nothing_of_a_failed_attempt_runs_beside_the_next(
    app: Regente, registry: Registry, way: Callable[[Task, Work], Awaitable[None]]
) -> None:
    """I2, W4: also when the pipeline does not await it."""
    work = Work()

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        work.attempt_begins()
        if task.attempt == 1:
            await way(task, work)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (await app.get(task_id)).status == "completed"
    assert work.beside == [set(), set()]
    assert work.running == set()


async def test_what_a_completed_attempt_left_is_ended_before_its_outcome(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I2: and what it finishes in time is recorded."""
    ended: list[str] = []

    async def left(task: Task) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await task.step("LAST", lambda: 1)
            status = await asyncio.to_thread(column, sql, "SELECT status FROM regente.tasks")
            ended.append(status[0])

    @registry.pipeline("p")
    async def run(task: Task) -> str:
        asyncio.create_task(left(task))  # noqa: RUF006
        await asyncio.sleep(0)
        return "done"

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (await app.get(task_id)).result == "done"
    assert ended == ["running"]
    assert column(sql, "SELECT name FROM regente.steps") == ["LAST"]


@pytest.mark.parametrize("end", ["cancel", "drain"])
async def test_a_stopped_attempt_takes_what_it_started_along(
    app: Regente, registry: Registry, end: str
) -> None:
    """O12, F19: a cancel and a deploy."""
    work = Work()

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        asyncio.create_task(work.forever(task.attempt))  # noqa: RUF006
        await asyncio.Event().wait()

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(lambda: work.running)
        if end == "cancel":
            await app.cancel(task_id)
            await status_is(app, task_id, "canceled")
            assert work.running == set()
    assert work.running == set()
    assert (await app.get(task_id)).status == {"cancel": "canceled", "drain": "queued"}[end]


async def test_a_task_that_was_lost_takes_what_it_started_along(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I3: also what its coroutine does not wait for."""
    work = Work()

    @registry.pipeline("p", stall_after=60, retry=Retry(max_attempts=1))
    async def run(task: Task) -> None:
        asyncio.create_task(work.forever(task.attempt))  # noqa: RUF006
        falls_silent(task)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(lambda: work.running)
        await status_is(app, task_id, "failed")
        await until(lambda: not work.running)


def in_a_step(task: Task, block: Callable[[], None]) -> Awaitable[None]:
    return task.step("BLOCK", block)


def in_an_async_step(task: Task, block: Callable[[], None]) -> Awaitable[None]:
    async def pay() -> None:
        await asyncio.to_thread(block)

    return task.step("BLOCK", pay)


def in_a_step_with_a_limit(task: Task, block: Callable[[], None]) -> Awaitable[None]:
    return task.step("BLOCK", block, timeout=0.01)


@pytest.mark.parametrize("way", [in_a_step, in_an_async_step, in_a_step_with_a_limit])
@pytest.mark.parametrize("used_before", [False, True], ids=["new executor", "used executor"])
async def test_a_thread_in_c_code_ends_before_the_next_attempt(
    app: Regente,
    registry: Registry,
    caplog: pytest.LogCaptureFixture,
    way: Callable[[Task, Callable[[], None]], Awaitable[None]],
    used_before: bool,
) -> None:
    """I2: however long it takes, beyond the grace; the log says what the attempt waits for."""
    at_work, let_go = threading.Event(), threading.Event()
    inside: list[int] = []
    beside: list[int] = []

    def block() -> None:
        inside.append(1)
        at_work.set()
        try:
            let_go.wait(60)  # one instruction for the interpreter
        finally:
            inside.clear()

    async def fail() -> None:
        await until(at_work.is_set)
        raise Transient("beside the thread")

    @registry.pipeline("p", retry=FAST, grace=0.05)
    async def run(task: Task) -> None:
        beside.append(len(inside))
        if task.attempt == 1:
            await asyncio.gather(way(task, block), task.step("FAIL", fail))

    if used_before:
        await asyncio.to_thread(int)
    task_id = await app.enqueue("p", {})
    with caplog.at_level(logging.WARNING, "regente"):
        async with running(app):
            await until(lambda: "waits for what it started: a thread" in caplog.text)
            assert (inside, beside) == ([1], [0])
            let_go.set()
            await status_is(app, task_id, "completed")
    assert beside == [0, 0]


async def test_a_thread_of_the_executor_is_interrupted_in_python_code(
    app: Regente, registry: Registry
) -> None:
    """I2: as that of a synchronous step; the executor's later calls are not."""
    at_work = threading.Event()
    ended: list[str] = []

    def loop() -> None:
        try:
            while True:
                at_work.set()
        except StepCanceled:
            ended.append("interrupted")

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> str:
        if task.attempt == 1:
            thread = asyncio.create_task(asyncio.to_thread(loop))
            await until(at_work.is_set)
            raise Transient(f"leaves {thread} behind")
        ended.append("next attempt")
        return await asyncio.to_thread(lambda: "later call")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert ended == ["interrupted", "next attempt"]
    assert (await app.get(task_id)).result == "later call"


async def test_a_thread_in_c_code_does_not_outlast_the_stall_time(
    app: Regente, registry: Registry, sql: Sql, caplog: pytest.LogCaptureFixture
) -> None:
    """I7, I8: what hangs for ever is a stall, as without a failure beside it."""
    let_go, tasks = threading.Event(), list[Task]()

    @registry.pipeline("p", retry=FAST, grace=0.05, stall_after=60)
    async def run(task: Task) -> None:
        tasks.append(task)
        if task.attempt == 1:
            await task.step("BLOCK", let_go.wait, 60, timeout=0.01)

    task_id = await app.enqueue("p", {})
    with caplog.at_level(logging.WARNING, "regente"):
        async with running(app):
            await until(lambda: "waits for what it started: a thread" in caplog.text)
            falls_silent(tasks[0])
            await status_is(app, task_id, "completed")
    let_go.set()
    assert column(sql, "SELECT code FROM regente.failures") == ["STALLED"]


async def test_what_ignores_its_end_is_logged_and_writes_nothing(
    app: Regente, registry: Registry, sql: Sql, caplog: pytest.LogCaptureFixture
) -> None:
    """I3: the attempt ends without it, after the grace."""
    let_go = asyncio.Event()
    wrote: list[BaseException] = []

    async def deaf(task: Task) -> None:
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()
        try:
            await task.step("LATE", lambda: 1)
        except BaseException as error:
            wrote.append(error)
            raise

    @registry.pipeline("p", grace=0.2)
    async def run(task: Task) -> None:
        asyncio.create_task(deaf(task), name="deaf one")  # noqa: RUF006
        await asyncio.sleep(0)

    task_id = await app.enqueue("p", {})
    with caplog.at_level(logging.WARNING, "regente"):
        async with running(app):
            await status_is(app, task_id, "completed")
            let_go.set()
            await until(lambda: wrote)
    assert "deaf one" in caplog.text
    assert column(sql, "SELECT name FROM regente.steps") == []


async def test_what_others_share_is_started_outside_and_lives_on(
    app: Regente, registry: Registry
) -> None:
    """W9: in a context of its own, as documented."""
    shared: list[asyncio.Task[bool]] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        shared.append(asyncio.create_task(asyncio.Event().wait(), context=contextvars.Context()))

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert not shared[0].done()
    shared[0].cancel()


@pytest.mark.parametrize("eager", [False, True] if sys.version_info >= (3, 12) else [False])
async def test_the_factory_of_others_goes_on(app: Regente, registry: Registry, eager: bool) -> None:
    """Q7: a factory that is set keeps making the tasks, and is there again afterwards."""
    loop = asyncio.get_running_loop()
    before: Any = loop.get_task_factory()
    made: list[str] = []
    inner: Any = getattr(asyncio, "eager_task_factory") if eager else _plain_task  # noqa: B009

    def mine(on: asyncio.AbstractEventLoop, made_of: Any, **options: Any) -> Any:
        made.append(made_of.__qualname__)
        return inner(on, made_of, **options)

    work = Work()

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        work.attempt_begins()
        if task.attempt == 1:
            await forgotten(task, work)

    loop.set_task_factory(mine)
    try:
        await app.enqueue("p", {})
        await asyncio.gather(app.run(until_idle=True), app_twice(app))
        assert loop.get_task_factory() is mine
    finally:
        loop.set_task_factory(before)
    assert "Work.forever" in made
    assert work.beside == [set(), set()]


def _plain_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
    return asyncio.Task(work, loop=loop, **options)


async def app_twice(app: Regente) -> None:
    """While one runner works, the loop has the factory once."""
    loop = asyncio.get_running_loop()
    await until(lambda: isinstance(loop.get_task_factory(), AttemptTasks))
