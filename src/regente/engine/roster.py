"""The tasks in a runner's hands: who is on, who must stop and why, who has been silent for too long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

from regente.engine.executor import failed_attempt
from regente.engine.outcome import Ended, Failure, FailureClass
from regente.engine.pipeline import Pipeline
from regente.engine.stacks import stack_of_task
from regente.engine.task import StopReason, Task

SUSPICIOUS_CRASHES = 2  # from here on a task runs with no other suspect beside it


class Running:
    __slots__ = ("ending", "handle", "pipeline", "stop_reason", "task")

    def __init__(self, task: Task[Any], pipeline: Pipeline) -> None:
        self.task = task
        self.pipeline = pipeline
        self.stop_reason: StopReason | None = None
        self.ending = False  # its outcome is on its way to the database
        self.handle: asyncio.Task[None] | None = None

    def stop(self, reason: StopReason) -> None:
        if self.stop_reason is None and not self.ending:
            self.stop_reason = self.task.stopping = reason
            if reason == "lost":
                self.task.lose()
            if self.handle is not None:
                self.handle.cancel()


class Roster:
    def __init__(self) -> None:
        self._running: dict[int, Running] = {}
        self._loop_thread_id = threading.get_ident()

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Running]:
        return iter(list(self._running.values()))

    def __contains__(self, running: Running) -> bool:
        return self._running.get(running.task.id) is running

    def add(self, running: Running) -> None:
        self._running[running.task.id] = running

    def remove(self, running: Running) -> None:
        task_id = running.task.id
        if self._running.get(task_id) is running:
            del self._running[task_id]

    def holding(self, task_id: int, attempt: int) -> Running | None:
        running = self._running.get(task_id)
        return running if running is not None and running.task.attempt == attempt else None

    def count(self, pipeline: Pipeline) -> int:
        return sum(running.pipeline is pipeline for running in self._running.values())

    @property
    def has_suspect(self) -> bool:
        return any(running.task.claim.crashes >= SUSPICIOUS_CRASHES for running in self._running.values())

    def overdue(self) -> Iterator[tuple[Task[Any], Ended]]:
        """Tasks past their timeout or silent past `stall_after`, each with its end. Called from the lease keeper's thread."""
        for running in self:
            if running.ending or running.stop_reason is not None:
                continue
            task, pipeline = running.task, running.pipeline
            if pipeline.timeout_seconds is not None and task.running_seconds > pipeline.timeout_seconds:
                message = f"the attempt took longer than {pipeline.timeout_seconds:g} s"
                yield task, _overdue(running, self._loop_thread_id, "timeout", "TIMEOUT", message)
            elif pipeline.stall_after_seconds is not None and task.silent_seconds > pipeline.stall_after_seconds:
                message = f"no progress for {task.silent_seconds:.1f} s"
                yield task, _overdue(running, self._loop_thread_id, "stall", "STALLED", message)


def _overdue(running: Running, loop_thread_id: int, failure_class: FailureClass, code: str, message: str) -> Ended:
    task = running.task
    stack = stack_of_task(running.handle, task.thread_id, loop_thread_id) if running.handle is not None else None
    failure = Failure(failure_class, code, message, stack, task.standing, snapshots=task.snapshots)
    return failed_attempt(task, running.pipeline, failure)
