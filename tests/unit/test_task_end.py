"""How a task leaves its runner: each end decides once, and frees the slot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import psycopg
import pytest

from regente import DatabaseUnavailable
from regente.engine.coalescer import Coalescer
from regente.engine.counters import Counters
from regente.engine.database import Database
from regente.engine.outcome import Completed, Ended
from regente.engine.pipeline import Pipeline
from regente.engine.roster import Roster, RunningTask
from regente.engine.task import Task
from regente.engine.task_end import TaskEnd
from regente.engine.task_store import Claim, Settlement, TaskStore
from regente.engine.watchdog.batches import TouchedBatches

RETRIED = Ended("queued", "task_retried", charged=1, delay_seconds=3.0)


async def work(task: Task[Any]) -> None: ...


class Exit:
    """A task end with one running task. The database takes what `error` lets pass."""

    def __init__(self) -> None:
        database = Database("postgresql://127.0.0.1:1/none")
        self.pipeline = Pipeline("p", work)
        self.counters, self.roster = Counters(), Roster()
        self.store = TaskStore(database, 1)
        self.error: BaseException | None = None
        self.passes = True
        self.settled: list[Settlement] = []
        self.store.finished = Coalescer(self.finish, max_batch=1, bytes_of=lambda _: 0)
        self.store.settled = Coalescer(self.settle, max_batch=1, bytes_of=lambda _: 0)
        self.released: list[RunningTask] = []
        self.delays: list[float] = []
        self.end = TaskEnd(
            self.roster,
            self.store,
            self.counters,
            TouchedBatches(database),
            self.released.append,
            lambda _, delay: self.delays.append(delay),
            lambda *_: None,
        )
        claim = Claim(7, "p", 1, 0, 0, None, None, "{}")
        self.running = RunningTask(Task(claim, self.pipeline, self.store), self.pipeline)
        self.roster.add(self.running)

    async def finish(self, batch: Sequence[Any]) -> list[bool]:
        if self.error is not None:
            raise self.error
        return [self.passes]

    async def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        self.settled += batch
        return [self.passes]

    async def is_released(self) -> None:
        await self.store.stop()  # everything that was handed in is written
        assert self.released == [self.running]
        assert not self.roster


@pytest.fixture
async def out() -> AsyncIterator[Exit]:
    made = Exit()
    made.store.start()
    yield made
    await made.store.stop()


async def test_what_is_committed_is_counted(out: Exit) -> None:
    out.end.ended(out.running, Completed(None))
    assert out.running.state == "writing"
    await out.is_released()
    assert (out.counters.completed, out.end.left) == (1, 0)


async def test_what_goes_back_to_the_queue_is_expected_there(out: Exit) -> None:
    out.end.ended(out.running, RETRIED)
    await out.is_released()
    assert (out.counters.retried, out.delays) == (1, [3.0])


async def test_what_the_fence_refuses_is_left(out: Exit) -> None:
    """I3."""
    out.passes = False
    out.end.ended(out.running, Completed(None))
    await out.is_released()
    assert (out.counters.completed, out.end.left) == (0, 1)


async def test_a_completion_that_no_database_took_is_left_and_not_failed(out: Exit) -> None:
    """F7: the lease runs out, and another runner does the task again."""
    out.error = DatabaseUnavailable("away")
    out.end.ended(out.running, Completed(None))
    await out.is_released()
    assert (out.end.left, out.settled) == (1, [])


async def test_an_outcome_that_cannot_be_stored_fails_the_task(out: Exit) -> None:
    out.error = psycopg.DataError("bad")
    out.end.ended(out.running, Completed("x"))
    await out.is_released()
    (settlement,) = out.settled
    assert settlement.outcome.failure is not None
    assert settlement.outcome.failure.code == "NOT_STORABLE"
    assert (out.counters.failed, out.end.left) == (1, 0)


async def test_an_end_that_was_decided_is_not_decided_again(out: Exit) -> None:
    """A coroutine that ignores its cancellation ends after its task was written as canceled."""
    out.running.stop("cancel")
    out.end.overran(out.running)
    out.end.ended(out.running, Completed(None))
    await out.is_released()
    out.end.ended(out.running, Completed(None))
    assert [settlement.outcome.status for settlement in out.settled] == ["canceled"]
    assert out.counters.completed == 0


async def test_a_task_that_was_not_stopped_cannot_overrun(out: Exit) -> None:
    out.end.overran(out.running)
    assert (out.running.state, out.released) == ("running", [])


async def test_a_lost_lease_frees_the_slot_and_writes_nothing(out: Exit) -> None:
    """I3."""
    out.end.lease_lost(out.running)
    assert out.released == [out.running]
    out.end.ended(out.running, Completed(None))
    await out.is_released()
    assert (out.settled, out.counters.completed, out.end.left) == ([], 0, 0)


async def test_a_lost_lease_leaves_a_write_under_way_to_the_fence(out: Exit) -> None:
    out.end.ended(out.running, Completed(None))
    out.end.lease_lost(out.running)
    assert out.released == []
    await out.is_released()
    assert out.counters.completed == 1


async def test_what_the_lease_wrote_is_counted_once(out: Exit) -> None:
    """I3: the task was taken back while its own outcome was on its way; the fence refuses that."""
    out.passes = False
    out.end.ended(out.running, Completed(None))
    out.end.taken_back(out.running.task.claim, RETRIED)
    await out.is_released()
    assert (out.counters.retried, out.counters.completed, out.end.left) == (1, 0, 0)
