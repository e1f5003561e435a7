"""The tasks of a runner: the state of each, which of them must stop and why, which are overdue."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

from regente.engine.executor import failed_attempt
from regente.engine.outcome import Ended, Failure, FailureClass
from regente.engine.pipeline import Pipeline
from regente.engine.stacks import stack_of_task
from regente.engine.task import StopReason, Task

TICK_SECONDS = 0.25
BLOCKED_SECONDS = 1.0  # an event loop that has not ticked for so long is blocked
SUSPICIOUS_CRASHES = 2  # from here on a task runs with no other suspect beside it

TaskState = Literal["running", "stopping", "writing", "released"]
"""See `task_end.py`."""


class RunningTask:
    __slots__ = ("handle", "pipeline", "state", "stop_reason", "task")

    def __init__(self, task: Task[Any], pipeline: Pipeline) -> None:
        self.task = task
        self.pipeline = pipeline
        self.state: TaskState = "running"
        self.stop_reason: StopReason | None = None
        self.handle: asyncio.Task[None] | None = None

    def stop(self, reason: StopReason) -> None:
        """Cancel the coroutine; the first reason stands."""
        if self.state == "running":
            self.state = "stopping"
            self.stop_reason = self.task.stopping = reason
            if reason == "lost":
                self.task.lose()
                if self.task.started is not None:
                    self.task.started.cancel()
            if self.handle is not None:
                self.handle.cancel()


class Roster:
    def __init__(self) -> None:
        self._running: dict[int, RunningTask] = {}
        self._loop_thread_id = threading.get_ident()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticked_at = 0.0

    def tick(self) -> None:
        """Called by the event loop every `TICK_SECONDS`, unless something blocks it."""
        self._loop = asyncio.get_running_loop()
        self._ticked_at = time.monotonic()

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[RunningTask]:
        return iter(list(self._running.values()))

    def __contains__(self, running: RunningTask) -> bool:
        return self._running.get(running.task.id) is running

    def add(self, running: RunningTask) -> None:
        self._running[running.task.id] = running

    def remove(self, running: RunningTask) -> None:
        task_id = running.task.id
        if self._running.get(task_id) is running:
            del self._running[task_id]

    def find(self, task_id: int, attempt: int) -> RunningTask | None:
        running = self._running.get(task_id)
        return running if running is not None and running.task.attempt == attempt else None

    def count(self, pipeline: Pipeline) -> int:
        return sum(running.pipeline is pipeline for running in self._running.values())

    @property
    def has_suspect(self) -> bool:
        return any(
            running.task.claim.crashes >= SUSPICIOUS_CRASHES for running in self._running.values()
        )

    def overdue(self) -> Iterator[tuple[Task[Any], Ended]]:
        """Tasks past their timeout or silent past `stall_after`, each with its outcome. Called from
        the thread of `overdue.py`.

        While one task blocks the event loop, the others cannot move: they are handed back, and only
        the blocking task is charged.
        """
        loop = self._loop if time.monotonic() - self._ticked_at > BLOCKED_SECONDS else None
        guilty = asyncio.current_task(loop) if loop is not None else None
        for running in self:
            if running.state != "running":
                continue
            complaint = _complaint(running)
            if complaint is None:
                continue
            if loop is not None and running.handle is not guilty:
                details = {"reason": "the loop of its runner is blocked"}
                back = Ended("queued", "task_handed_back", delay_seconds=None, details=details)
                yield running.task, back
            else:
                yield running.task, _overdue(running, self._loop_thread_id, *complaint)


def _complaint(running: RunningTask) -> tuple[FailureClass, str, str] | None:
    """Class, code and message, if the task is overdue."""
    task, pipeline = running.task, running.pipeline
    if pipeline.timeout_seconds is not None and task.running_seconds > pipeline.timeout_seconds:
        return "timeout", "TIMEOUT", f"the attempt took longer than {pipeline.timeout_seconds:g} s"
    if (
        pipeline.stall_after_seconds is not None
        and task.silent_seconds > pipeline.stall_after_seconds
    ):
        return "stall", "STALLED", f"no progress for {task.silent_seconds:.1f} s"
    return None


def _overdue(
    running: RunningTask, loop_thread_id: int, failure_class: FailureClass, code: str, message: str
) -> Ended:
    task = running.task
    stack = (
        stack_of_task(running.handle, task.thread_id, loop_thread_id)
        if running.handle is not None
        else None
    )
    failure = Failure(
        failure_class, code, message, stack, task.current_step, snapshots=task.snapshots
    )
    return failed_attempt(task, running.pipeline, failure)
