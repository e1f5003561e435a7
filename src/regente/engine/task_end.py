"""How a task leaves its runner: what happens between the end of an attempt and the free slot.

Each task of a runner is in one state (`RunningTask.state`):

    running   its coroutine works
    stopping  its coroutine was cancelled, for a cancel, a drain or because the task was taken over,
              and has the pipeline's grace
    writing   its outcome is on the way to the database
    released  its slot is free

    event                                        from               what is written       to
    ─────────────────────────────────────────────────────────────────────────────────────────────
    ended: the coroutine returned or raised      running, stopping  the outcome           writing
    overran: the grace is over                   stopping           canceled, handed back writing
    overran or ended after taken_over            stopping           nothing               released
    ended with LeaseLost                         running, stopping  nothing               released
    lease_lost: the runner may write no more     running, stopping  nothing               released
    taken_over: another session put the task     running, stopping  nothing               stopping
    back or ended it; the coroutine is cancelled
    taken_back: stalled or timed out             any                (`overdue.py` wrote   released
                                                                     the outcome)
    committed                                    writing            -                     released
    refused by the fence: taken over elsewhere   writing            -                     released
    not storable: PostgreSQL refuses the outcome writing            a failure that says so writing
    database away until the runner gives up      writing            nothing: the lease    released
                                                                     runs out

A coroutine has ended when what it started has ended too, or when the grace for that is over
(`executor.py`).

What is committed is counted. What is refused or cannot be written is `left` to the lease.
"""

from __future__ import annotations

from collections.abc import Callable

from regente.engine import log
from regente.engine.counters import Counters
from regente.engine.crashpoints import crash_point
from regente.engine.errors import DatabaseUnavailable, StatementTimeout
from regente.engine.executor import stopped
from regente.engine.outcome import Completed, Ended, Failure, Outcome
from regente.engine.roster import Roster, RunningTask
from regente.engine.task_store import Claim, Completion, Settlement, TaskStore
from regente.engine.watchdog.batches import TouchedBatches


class TaskEnd:
    """`on_released` is called with each task whose slot is free, `on_queued` with each claim
    whose task goes back to the queue, and the delay in seconds, `on_lane_end` with each claim from
    a lane and its outcome, after the commit."""

    def __init__(
        self,
        roster: Roster,
        store: TaskStore,
        counters: Counters,
        touched_batches: TouchedBatches,
        on_released: Callable[[RunningTask], None],
        on_queued: Callable[[Claim, float], None],
        on_lane_end: Callable[[Claim, Outcome], None],
    ) -> None:
        self.left = 0
        self._roster = roster
        self._store = store
        self._counters = counters
        self._touched_batches = touched_batches
        self._on_released = on_released
        self._on_queued = on_queued
        self._on_lane_end = on_lane_end

    # What ends an attempt.

    def ended(self, running: RunningTask, outcome: Outcome | None) -> None:
        """The coroutine has ended; without an outcome its attempt has lost the task."""
        if running.state in ("writing", "released"):
            return  # the end was decided without the coroutine
        reason = running.stop_reason
        if reason is not None and not isinstance(outcome, Completed):
            outcome = stopped(reason)
        if outcome is None or reason == "lost":
            self._release(running)
        else:
            self._write(running, outcome)

    def overran(self, running: RunningTask) -> None:
        """The coroutine was cancelled and still runs after its grace."""
        if running.state == "stopping" and running in self._roster:
            running.task.lose()
            self.ended(running, None)

    def taken_back(self, claim: Claim, outcome: Ended | None) -> None:
        """`overdue.py` has ended the attempt; without an outcome its write was refused."""
        running = self._roster.find(claim.id, claim.attempt)
        if running is None:
            return
        running.stop("lost")
        self._release(running)
        if outcome is not None:
            self._count(running, outcome)

    def lease_lost(self, running: RunningTask) -> None:
        """Another runner may take the task over. A write under way meets the fence."""
        running.stop("lost")
        if running.state != "writing":
            self._release(running)

    def taken_over(self, running: RunningTask) -> None:
        """Another session has put the task back or ended it."""
        if running.state in ("running", "stopping"):
            running.task.lose()
            running.stop("lost")
            running.stop_reason = "lost"  # also when it was stopping for another reason
            self.left += 1
            log.taken_over(running.task)

    # How it is written. The store writes the outcomes of many tasks in one statement.

    def _write(self, running: RunningTask, outcome: Outcome) -> None:
        running.state = "writing"
        claim = running.task.claim
        if isinstance(outcome, Completed):
            self._store.finished.hand_in(
                Completion(claim, outcome, running), self._written, self._not_written
            )
        else:
            self._store.settled.hand_in(
                Settlement(claim, outcome, running), self._written, self._not_written
            )

    def _written(self, ending: Completion | Settlement, passed: bool) -> None:
        running: RunningTask = ending.owner
        if not passed and running.state == "writing" and running.stop_reason is None:
            self.left += 1
            log.write_refused(running.task)
        self._release(running)
        if passed:
            self._count(running, ending.outcome)

    def _not_written(self, ending: Completion | Settlement, error: BaseException) -> None:
        if isinstance(error, DatabaseUnavailable | StatementTimeout):
            self._leave(ending, error)
            return
        failure = Failure("fatal", "NOT_STORABLE", f"the outcome could not be stored: {error}")
        instead = Ended("failed", "task_failed", charged=1, failure=failure)
        self._store.settled.hand_in(
            Settlement(ending.claim, instead, ending.owner), self._written, self._leave
        )

    def _leave(self, ending: Completion | Settlement, _: BaseException) -> None:
        self.left += 1
        self._release(ending.owner)

    # The slot is free.

    def _release(self, running: RunningTask) -> None:
        if running.state != "released":
            running.state = "released"
            self._roster.remove(running)
            self._on_released(running)

    def _count(self, running: RunningTask, outcome: Outcome) -> None:
        claim, seconds = running.task.claim, running.task.running_seconds
        self._counters.count(outcome, seconds)
        if claim.batch_id is not None:
            self._touched_batches.add(claim.batch_id)
        if claim.lane is not None:
            self._on_lane_end(claim, outcome)
        if isinstance(outcome, Ended) and outcome.status == "canceled":
            self._touched_batches.add_canceled(claim.id)
        if isinstance(outcome, Completed):
            log.task_ended(running.task, "completed", seconds)
            return
        log.task_ended(
            running.task, outcome.event.removeprefix("task_"), seconds, failure=outcome.failure
        )
        if outcome.event == "task_handed_back":
            crash_point("drain.handed_back")
        elif outcome.status == "queued":
            if outcome.sleep_step:
                crash_point("sleep.committed")
            self._on_queued(claim, outcome.delay_seconds or 0.0)
