"""What a runner knows about the queue: the priority levels in use for each pipeline, the first task
of each, and when the next task is due."""

from __future__ import annotations

import time
from collections.abc import Sequence

from regente.engine.database import FOREVER
from regente.engine.task_store import PriorityLevel

BEGINNING = "-infinity"


class PriorityLevels:
    """Filled by surveys and hints. Level 0 is always claimed from, so that an idle runner needs one
    statement."""

    def __init__(self, pipelines: Sequence[str]) -> None:
        self._pipelines = list(pipelines)
        self._floors: dict[str, dict[int, str]] = {name: {0: BEGINNING} for name in pipelines}
        self._turn = 0
        self._surveyed_at = -FOREVER
        self.next_due_at = FOREVER

    @property
    def age_seconds(self) -> float:
        return time.monotonic() - self._surveyed_at

    def learn(self, found: Sequence[PriorityLevel]) -> None:
        floors: dict[str, dict[int, str]] = {name: {0: BEGINNING} for name in self._pipelines}
        for level in found:
            # A floor is valid only while its first task is due: before that, an earlier one may
            # become due.
            floors[level.pipeline][level.priority] = (
                level.floor if level.due_seconds <= 0 else BEGINNING
            )
        self._floors = floors
        self._surveyed_at = now = time.monotonic()
        self.next_due_at = min((now + level.due_seconds for level in found), default=FOREVER)

    def hear(self, pipeline: str, priority: int, due_seconds: float) -> None:
        if pipeline in self._floors:
            self._floors[pipeline].setdefault(priority, BEGINNING)
            self.expect(due_seconds)

    def expect(self, due_seconds: float) -> None:
        """Note that a task is due in so many seconds."""
        self.next_due_at = min(self.next_due_at, time.monotonic() + due_seconds)

    def ask_for(self, room: dict[str, int]) -> list[tuple[str, int, str, int]]:
        """The levels for the next claim: highest priority first in each pipeline; the pipelines
        take turns to be first, so that none starves another."""
        self._turn = (self._turn + 1) % len(self._pipelines)
        names = self._pipelines[self._turn :] + self._pipelines[: self._turn]
        return [
            (name, priority, self._floors[name][priority], room[name])
            for name in names
            for priority in sorted(self._floors[name], reverse=True)
        ]
