"""What a runner knows of the queue: which priority levels each pipeline uses, where each begins,
when the next task is due."""

from __future__ import annotations

import time
from collections.abc import Sequence

from regente.engine.database import FOREVER
from regente.engine.task_store import PriorityLevel

BEGINNING = "-infinity"


class PriorityLevels:
    """Learned from surveys and hints. Level 0 is always asked for, so that an idle runner claims in
    one statement."""

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
            # Where nothing is due yet, whatever falls due before the first one must be found as
            # well.
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
        """A task will be due then, at the latest."""
        self.next_due_at = min(self.next_due_at, time.monotonic() + due_seconds)

    def ask_for(self, room: dict[str, int]) -> list[tuple[str, int, str, int]]:
        """Highest priority first in each pipeline; which pipeline comes first goes round, so that
        none starves another."""
        self._turn = (self._turn + 1) % len(self._pipelines)
        names = self._pipelines[self._turn :] + self._pipelines[: self._turn]
        return [
            (name, priority, self._floors[name][priority], room[name])
            for name in names
            for priority in sorted(self._floors[name], reverse=True)
        ]
