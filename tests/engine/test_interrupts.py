"""A task that is taken back is interrupted in the runner that works on it, which writes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from regente import Regente
from regente.engine import runner as runner_module
from regente.engine.errors import LeaseLost
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.threads import StepCanceled
from regente.engine.watchdog.batches import BatchReview
from regente.engine.watchdog.expiry import ExpirySweep
from regente.engine.watchdog.stalls import StallSweep
from regente.settings import Settings
from tests.engine import isolated_work
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Sql, events_of, one, running, task_row, until

TakeBack = Callable[[Regente, Sql, int], Awaitable[object]]
BATCH = "b"
LONG_AGO = "regente.clock() - interval '1 day'"


@pytest.fixture
def settings() -> Settings:
    """The runner's own sweeps run once, at its start; then another process takes tasks back."""
    return Settings(
        sweep_seconds=3600, batches_seconds=3600, schedules_seconds=3600, drain_seconds=5.0
    )


@pytest.fixture(params=["with LISTEN", "through a pooler"])
async def worker(
    request: pytest.FixtureRequest, app: Regente, monkeypatch: pytest.MonkeyPatch
) -> Regente:
    """A runner that hears only hints, or one that hears none and polls."""
    monkeypatch.setattr(runner_module, "POLL_SECONDS", 3600.0)
    app.database.through_pooler = request.param == "through a pooler"
    return app


class Busy:
    """A pipeline whose first attempt writes into a sink until it is interrupted."""

    def __init__(self, registry: Registry) -> None:
        self.sink: list[int] = []
        self.ended = asyncio.Event()

        @registry.pipeline("p", stall_after=600, expire_after=3600)
        async def run(task: Task) -> None:
            if task.attempt > 1:
                return
            try:
                while True:
                    self.sink.append(task.attempt)
                    await asyncio.sleep(0.01)
            finally:
                self.ended.set()

        @registry.pipeline("q")
        async def beside(_: Task) -> None: ...


@pytest.fixture
def busy(registry: Registry) -> Busy:
    return Busy(registry)


def look_old(sql: Sql) -> None:
    sql.execute(f"UPDATE regente.tasks SET heartbeat_at = {LONG_AGO}, started_at = {LONG_AGO}")
    sql.execute(f"UPDATE regente.batches SET progress_at = {LONG_AGO}")
    sql.execute(f"UPDATE regente.runners SET started_at = {LONG_AGO}")


async def recover(app: Regente, _: Sql, task_id: int) -> object:
    return await app.recover_stuck(0, task_id=task_id)


async def expire(app: Regente, _: Sql, __: int) -> object:
    return await ExpirySweep(app.database, 60).run_once()


async def give_up_old(app: Regente, _: Sql, __: int) -> object:
    return await app.give_up_old(0)


async def give_up_batch(app: Regente, _: Sql, __: int) -> object:
    return await BatchReview(app.database, 60).run_once()


async def resume_batch(app: Regente, _: Sql, __: int) -> object:
    await BatchReview(app.database, 60).run_once()
    return await app.resume_batch(BATCH)


async def release_stalled(app: Regente, _: Sql, __: int) -> object:
    return await StallSweep(app.database, 60, lambda _: None).run_once()


TAKE_BACKS: list[TakeBack] = [
    recover,
    expire,
    give_up_old,
    give_up_batch,
    resume_batch,
    release_stalled,
]


@pytest.mark.parametrize("take_back", TAKE_BACKS, ids=lambda one: one.__name__)
async def test_the_runner_that_works_on_it_stops(
    worker: Regente, open_app: OpenApp, sql: Sql, busy: Busy, take_back: TakeBack
) -> None:
    """I2, I3, I4: no effect comes after it, nothing is written, and its slot is free."""
    other = await open_app()
    resumes = 3 if take_back is resume_batch else 0
    await other.open_batch(BATCH, stall_after=60, max_resumes=resumes)
    task_id = await other.enqueue("p", {}, batch=BATCH)
    async with running(worker, concurrency=1):
        await until(lambda: busy.sink)
        look_old(sql)
        await take_back(other, sql, task_id)
        await until(busy.ended.is_set)
        arrived = len(busy.sink)
        beside = await other.enqueue("q", {})
        await until(lambda: task_row(sql, beside)["status"] == "completed")
        await until(lambda: task_row(sql, task_id)["status"] in ("completed", "failed"))
    assert len(busy.sink) == arrived
    assert "task_handed_back" not in events_of(sql, task_id)


async def test_a_task_that_is_put_back_by_hand_is_stopped(
    app: Regente, sql: Sql, busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4: SQL that an operator writes sends no hint; the poll finds it."""
    monkeypatch.setattr(runner_module, "POLL_SECONDS", 0.1)
    task_id = await app.enqueue("p", {})
    async with running(app, concurrency=1):
        await until(lambda: busy.sink)
        sql.execute("UPDATE regente.tasks SET status = 'queued', runner_id = NULL")
        await until(busy.ended.is_set)
        await until(lambda: task_row(sql, task_id)["status"] == "completed")
    assert task_row(sql, task_id)["attempt"] == 2


async def test_only_the_attempt_that_lost_its_task_is_stopped(
    app: Regente, registry: Registry, sql: Sql, no_polls: None
) -> None:
    """I1: the tasks beside it go on."""
    started: list[int] = []
    go_on = asyncio.Event()

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        started.append(task.id)
        await go_on.wait()

    first, second = await app.enqueue_many("p", [{}, {}])
    async with running(app):
        await until(lambda: len(started) == 2)
        await app.recover_stuck(0, task_id=first)
        await until(lambda: len(started) == 3)
        go_on.set()
        await until(lambda: sorted(started) == [first, first, second])
        await until(
            lambda: (
                (task_row(sql, first)["status"], task_row(sql, second)["status"])
                == ("completed", "completed")
            )
        )
    assert (task_row(sql, first)["attempt"], task_row(sql, second)["attempt"]) == (2, 1)


@contextlib.asynccontextmanager
async def at_work(app: Regente, started: Callable[[], object]) -> AsyncIterator[int]:
    """A running task that is recovered when the block begins."""
    task_id = await app.enqueue("p", {})
    async with running(app, concurrency=1):
        await until(started)
        await app.recover_stuck(0)
        yield task_id


async def test_a_synchronous_step_is_interrupted(
    app: Regente, registry: Registry, no_polls: None
) -> None:
    """I2: `StepCanceled` is raised in its thread."""
    started, interrupted = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        try:
            while True:
                threading.Event().wait(0.01)
        except StepCanceled:
            interrupted.set()
            raise

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        if task.attempt == 1:
            await task.step("WORK", work)

    async with at_work(app, started.is_set):
        await until(interrupted.is_set)


async def test_an_isolated_step_is_killed(
    app: Regente, registry: Registry, no_polls: None, tmp_path: Path
) -> None:
    """I2."""
    tells = tmp_path / "pid"

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        if task.attempt == 1:
            await task.step("WORK", isolated_work.sleep_forever, str(tells), isolated=True)

    async with at_work(app, tells.exists):
        await until(lambda: not any(is_alive(int(pid)) for pid in tells.read_text().split()))


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_an_attempt_that_swallows_its_cancellation_acts_no_more(
    app: Regente, registry: Registry, sql: Sql, no_polls: None
) -> None:
    """I2, I3: its slot is free after the grace; `check_lease` and every write refuse it."""
    started, let_go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    refused: list[str] = []

    @registry.pipeline("p", grace=0.1)
    async def run(task: Task) -> None:
        if task.attempt > 1:
            return
        started.set()
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()
        try:
            task.check_lease()
        except LeaseLost:
            refused.append("check_lease")
        try:
            await task.progress(0.5)
        except LeaseLost:
            refused.append("progress")
        ended.set()

    async with at_work(app, started.is_set) as task_id:
        await until(lambda: task_row(sql, task_id)["status"] == "completed")
        let_go.set()
        await ended.wait()
    assert refused == ["check_lease", "progress"]
    assert one(sql, "SELECT progress FROM regente.tasks")["progress"] == 1
