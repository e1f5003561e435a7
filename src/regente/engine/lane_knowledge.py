"""What a runner knows about lanes: when the first of each of its pipelines is ready."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from regente.engine.database import FOREVER

QUANTUM = 16  # tasks in a turn of a lane with weight 1, if the runner has more free slots
MAX_LANES = 500  # in one claim


class LaneKnowledge:
    """Filled by surveys and hints. Without lanes it is empty, and costs one comparison."""

    def __init__(self, pipelines: Sequence[str]) -> None:
        self._pipelines = frozenset(pipelines)
        self._due: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._turn = 0
        self._tasks_of_a_lane = float(QUANTUM)

    @property
    def next_due_at(self) -> float:
        return min(self._due.values(), default=FOREVER)

    @property
    def is_due(self) -> bool:
        return bool(self._due) and self.next_due_at <= time.monotonic()

    @property
    def has_lanes(self) -> bool:
        return bool(self._due)

    def hear(self, pipeline: str, due_seconds: float) -> None:
        """A lane will be ready in so many seconds."""
        if pipeline in self._pipelines:
            due_at = time.monotonic() + due_seconds
            for known in (self._due, self._heard):
                known[pipeline] = min(due_at, known.get(pipeline, FOREVER))

    def due_pipelines(self) -> list[str]:
        """They take turns to be first."""
        now = time.monotonic()
        due = sorted(name for name, due_at in self._due.items() if due_at <= now)
        self._turn += 1
        first = self._turn % len(due) if due else 0
        return due[first:] + due[:first]

    # Claims.

    def lanes_for(self, free: int) -> int:
        """How many lanes a claim asks for: as many as were needed the last time."""
        return max(4, min(MAX_LANES, free, round(1.25 * free / max(1.0, self._tasks_of_a_lane))))

    def claimed(self, tasks: int, lanes: int) -> None:
        if lanes:
            self._tasks_of_a_lane += (tasks / lanes - self._tasks_of_a_lane) / 4

    # Surveys.

    def begin_survey(self) -> None:
        self._heard = {}

    def learn(self, found: Iterable[tuple[str, float]]) -> None:
        """Take over what a survey found, except where a hint came during it: that is newer."""
        now = time.monotonic()
        self._due = {pipeline: now + due_seconds for pipeline, due_seconds in found}
        for pipeline, due_at in self._heard.items():
            self._due[pipeline] = min(due_at, self._due.get(pipeline, FOREVER))
