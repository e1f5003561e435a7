"""Timeouts and stalls: the task is taken from a live runner, and the record says where it hung."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from regente import Regente, Retry, TaskConnection, heartbeat
from regente.engine import overdue
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog.stalls import StallSweep
from tests.engine import isolated_work
from tests.engine.helpers import (
    Clock,
    Sql,
    SqlRunner,
    column,
    events_of,
    falls_silent,
    many,
    one,
    run_query,
    running,
    status_is,
    task_row,
    until,
)

ONCE = Retry(max_attempts=1)


@pytest.fixture(autouse=True)
def quick_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner looks for overdue tasks all the time instead of every second."""
    monkeypatch.setattr(overdue, "WATCH_EVERY_SECONDS", 0.05)


async def stuck_in_an_await() -> None:
    await asyncio.Event().wait()


class Blocker:
    """A synchronous step that hangs until the test lets it go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def stuck_in_a_thread(self, task: Task) -> None:
        falls_silent(task)
        self.let_go.wait()


def let_go(fifo: Path) -> None:
    """Ends the FIFO's readers: those that read now and those that open it later."""
    writer = os.open(fifo, os.O_RDWR)
    fifo.unlink()
    fifo.touch()
    os.close(writer)


def started_an_hour_ago(task: Task) -> None:
    task._started_at -= 3600


async def stack_of_the_end(app: Regente, sql: Sql) -> dict[str, Any]:
    await app.run(until_idle=True)
    return one(sql, "SELECT class, code, message, stack, step FROM regente.failures")


async def test_an_attempt_that_takes_too_long_is_ended_with_its_stack(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """O8, W4: class `timeout`, and the stack names the await in which it hung."""
    ended = asyncio.Event()

    async def hang(task: Task) -> None:
        asyncio.get_running_loop().call_soon(started_an_hour_ago, task)
        await stuck_in_an_await()

    @registry.pipeline("p", retry=ONCE, timeout=60)
    async def run(task: Task) -> None:
        try:
            await task.step("HANG", hang, task)
        except asyncio.CancelledError:
            ended.set()
            raise

    task_id = await app.enqueue("p", {})
    failure = await stack_of_the_end(app, sql)
    assert (failure["class"], failure["code"], failure["step"]) == ("timeout", "TIMEOUT", "HANG")
    assert "60 s" in failure["message"]
    assert "in stuck_in_an_await" in failure["stack"]
    assert task_row(sql, task_id)["status"] == "failed"
    await ended.wait()


@pytest.mark.parametrize(
    "where", ["await", "thread", "each", "step with a time limit", "task group"]
)
async def test_a_stall_records_where_the_task_stands(
    app: Regente, registry: Registry, sql: Sql, where: str
) -> None:
    """Q3, W1: no progress for `stall_after`; the record names the reason, in every kind of wait."""
    blocker = Blocker()

    @registry.pipeline("p", retry=ONCE, stall_after=60)
    async def run(task: Task) -> None:
        async def hang(_: int = 0) -> None:
            falls_silent(task)
            await stuck_in_an_await()

        match where:
            case "await":
                await task.step("HANG", hang)
            case "thread":
                await task.step("HANG", blocker.stuck_in_a_thread, task)
            case "each":
                await task.each("HANG", [1, 2], hang, concurrency=2)
            case "step with a time limit":
                await task.step("HANG", hang, timeout=600)
            case "task group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(hang())

    await app.enqueue("p", {})
    failure = await stack_of_the_end(app, sql)
    assert (failure["class"], failure["code"]) == ("stall", "STALLED")
    assert ("in stuck_in_a_thread" if where == "thread" else "in stuck_in_an_await") in failure[
        "stack"
    ]
    blocker.let_go.set()


async def stored(connection: TaskConnection) -> None:
    await connection.execute("SELECT 1")


async def test_a_task_that_shows_progress_does_not_stall(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q3: steps, progress, heartbeats, events and transactions count as progress."""
    silences: list[float] = []

    @registry.pipeline("p", retry=ONCE, stall_after=600)
    async def run(task: Task) -> None:
        signs: list[Callable[[], Awaitable[Any]]] = [
            lambda: task.step("A", int),
            lambda: task.each("B", [1], int),
            lambda: task.progress(0.5),
            task.heartbeat,
            lambda: task.event("seen"),
            lambda: task.transact("C", stored),
        ]
        for sign in signs:
            task._beat_at -= 500
            await sign()
            silences.append(task.silent_seconds)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["status"] == "completed"
    assert len(silences) == 6
    assert max(silences) < 500


async def test_a_stalled_task_is_tried_again_and_its_slot_is_free_at_once(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q4, W3: also when the stuck code swallows its cancellation."""
    blocked = asyncio.Event()

    @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01), stall_after=60)
    async def run(task: Task) -> str:
        while task.attempt == 1:
            try:
                falls_silent(task)
                await blocked.wait()
                return "too late"
            except asyncio.CancelledError:
                continue
        return "second"

    task_id = await app.enqueue("p", {})
    async with running(app, concurrency=1):
        await status_is(app, task_id, "completed")
        blocked.set()
    row = task_row(sql, task_id)
    assert (row["result"], row["tries"], row["attempt"]) == ("second", 1, 2)


async def test_a_blocked_event_loop_loses_its_task_to_another_runner(
    app: Regente, registry: Registry, sql: Sql, database_url: str, tmp_path: Path
) -> None:
    """W8, Q3: `time.sleep` in a coroutine blocks a runner whose lease is renewed all the same."""
    release = tmp_path / "release"
    os.mkfifo(release)
    program = f"""
import asyncio, pathlib, sys
from regente import Regente, Retry, pipeline
from regente.engine import overdue
overdue.WATCH_EVERY_SECONDS = 0.05

def blocks_the_loop(task):
    task._beat_at -= 3600  # as if it had blocked the loop for so long
    pathlib.Path({str(release)!r}).read_bytes()  # blocks until the test writes

@pipeline("p", retry=Retry(max_attempts=3, first=0.01), stall_after=60)
async def run(task):
    blocks_the_loop(task)
    return "blocked"

async def main():
    async with Regente({database_url!r}) as app:
        running = asyncio.create_task(app.run(concurrency=1))
        await asyncio.to_thread(sys.stdin.read)
        app.stop_running(); app.stop_running()
        await running

asyncio.run(main())
"""

    @registry.pipeline("p", retry=Retry(max_attempts=3, first=0.01), stall_after=60)
    async def run(task: Task) -> str:
        return f"elsewhere at attempt {task.attempt}"

    task_id = await app.enqueue("p", {})
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)  # noqa: ASYNC220
    try:
        await until(lambda: many(sql, "SELECT 1 FROM regente.failures") != [])
        async with running(app):
            await status_is(app, task_id, "completed")
    finally:
        let_go(release)
        child.communicate(timeout=60)
    assert task_row(sql, task_id)["result"] == "elsewhere at attempt 2"
    failure = one(sql, "SELECT class, stack FROM regente.failures")
    assert failure["class"] == "stall"
    assert "in blocks_the_loop" in failure["stack"]
    assert child.returncode == 0


async def test_only_the_task_that_blocks_the_loop_is_charged(
    app: Regente, registry: Registry, sql: Sql, database_url: str, tmp_path: Path
) -> None:
    """W8, I7: tasks beside it could not progress; they are handed back uncharged."""
    release = tmp_path / "release"
    os.mkfifo(release)
    program = f"""
import asyncio, pathlib, sys, threading, time
from regente import Regente, Retry, pipeline
from regente.engine import overdue, roster
overdue.WATCH_EVERY_SECONDS = 0.05
beside = asyncio.Event()
tasks = []

def an_hour_later():
    time.sleep(2 * roster.BLOCKED_SECONDS)  # by then the loop is blocked
    for task in tasks:
        task._beat_at -= 3600

@pipeline("p", retry=Retry(max_attempts=3, first=0.01), stall_after=60)
async def run(task):
    tasks.append(task)
    if task.args["innocent"]:
        beside.set()
        while True:
            await task.heartbeat()
            await asyncio.sleep(0.05)
    await beside.wait()
    threading.Thread(target=an_hour_later).start()
    pathlib.Path({str(release)!r}).read_bytes()  # blocks until the test writes

async def main():
    async with Regente({database_url!r}) as app:
        running = asyncio.create_task(app.run(concurrency=2))
        await asyncio.to_thread(sys.stdin.read)
        app.stop_running(); app.stop_running()
        await running

asyncio.run(main())
"""
    registry.declare("p")
    innocent, guilty = await app.enqueue_many("p", [{"innocent": True}, {"innocent": False}])
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)  # noqa: ASYNC220
    try:
        await until(lambda: {"task_handed_back"} <= {*events_of(sql, innocent)})
        await until(lambda: many(sql, "SELECT 1 FROM regente.failures") != [])
        assert column(sql, "SELECT task_id FROM regente.failures") == [guilty]
        assert (task_row(sql, innocent)["tries"], task_row(sql, guilty)["tries"]) == (0, 1)
    finally:
        let_go(release)
        child.communicate(timeout=60)


async def test_another_runner_notices_a_stall_that_its_holder_does_not(
    app: Regente, registry: Registry, sql: Sql, clock: Clock
) -> None:
    """Q4, I8: the fallback; the holder gets one more `stall_after` of grace."""

    @registry.pipeline("p", retry=Retry(max_attempts=2), stall_after=60)
    async def run(task: Task) -> None:
        return None

    await app.run(until_idle=True)
    sql_runner = SqlRunner.register(sql, ["p"], ttl_seconds=86_400)
    task_id = await app.enqueue("p", {})
    sweep = StallSweep(app.database, 60, lambda _: None)
    for status, tries in (("queued", 1), ("failed", 2)):
        assert sql_runner.claim() == [task_id]
        clock.advance(seconds=90)
        assert await sweep.run_once() == 0, "not before twice stall_after"
        clock.advance(seconds=40)
        assert await sweep.run_once() == 1
        row = task_row(sql, task_id)
        assert (row["status"], row["tries"], row["error_code"]) == (status, tries, "STALLED")
    assert column(sql, "SELECT class FROM regente.failures") == ["stall", "stall"]
    assert events_of(sql, task_id)[-1] == "task_failed"


async def test_a_pipeline_without_limits_is_never_taken_back(
    app: Regente, registry: Registry, sql: Sql, clock: Clock
) -> None:
    """Q3: `stall_after=None` means no limit."""

    @registry.pipeline("p", stall_after=None)
    async def run(task: Task) -> None:
        return None

    await app.run(until_idle=True)
    sql_runner = SqlRunner.register(sql, ["p"], ttl_seconds=86_400 * 40)
    await app.enqueue("p", {})
    sql_runner.claim()
    clock.advance(days=30)
    assert run_query(sql, "release_stalled", {"limit": 10}) == []


async def test_a_stall_whose_record_is_refused_does_not_hide_the_next(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I8, F15: the watch goes on after a refused record."""

    @registry.pipeline("p", retry=ONCE, stall_after=0.2)
    async def run(task: Task[dict[str, Any]]) -> None:
        if task.args["n"] == 0:
            task.current_step = "\x00"  # what no record may contain
        await stuck_in_an_await()

    ids = await app.enqueue_many("p", [{"n": n} for n in range(3)])
    async with running(app):
        for task_id in ids:
            await status_is(app, task_id, "failed")


@pytest.mark.parametrize("where", ["thread", "child", "coroutine"])
async def test_a_step_shows_that_it_is_alive(
    app: Regente,
    registry: Registry,
    sql: Sql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    """W1, W6: `regente.heartbeat()` reaches the task and its row, wherever the step runs."""
    monkeypatch.setattr("regente.engine.task.HEARTBEAT_EVERY_SECONDS", 0.0)
    told, tasks = tmp_path / "told", list[Task]()

    async def in_coroutine(_: str) -> str:
        while not told.exists():
            heartbeat()
            await asyncio.sleep(0.01)
        return "done"

    @registry.pipeline("p", stall_after=None)
    async def run(task: Task) -> str:
        tasks.append(task)
        function: Any = in_coroutine if where == "coroutine" else isolated_work.beat_until_there
        result: str = await task.step("WORK", function, str(told), isolated=where == "child")
        return result

    def heartbeats() -> datetime | None:
        at: datetime | None = task_row(sql, task_id)["heartbeat_at"]
        return at

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(lambda: tasks)
        before, silent_since = heartbeats(), tasks[0]._beat_at
        await until(lambda: tasks[0]._beat_at > silent_since and heartbeats() != before)
        told.touch()
        await status_is(app, task_id, "completed")
    assert task_row(sql, task_id)["attempt"] == 1


def test_a_heartbeat_outside_a_task_does_nothing() -> None:
    """So that functions of steps can be called in any program."""
    heartbeat()
