"""The counters of a runner: for its row in the database, for metrics and for the report of its
drain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regente.engine.outcome import Completed, Outcome


@dataclass(slots=True)
class Counters:
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    recovered: int = 0
    handed_back: int = 0
    busy_seconds: float = 0.0

    def count(self, outcome: Outcome, seconds: float) -> None:
        """Count one attempt whose outcome is committed."""
        self.busy_seconds += seconds
        if isinstance(outcome, Completed):
            self.completed += 1
        elif outcome.status == "failed":
            self.failed += 1
        elif outcome.event == "task_handed_back":
            self.handed_back += 1
        else:
            self.retried += outcome.charged

    def as_params(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class DrainReport:
    """The ends of the tasks that were running when the drain began, as counts.

    `left` are those whose outcome was not written, because the database was away or another runner
    had taken them over: the reaper queues them when the lease runs out.
    """

    finished: int = 0
    handed_back: int = 0
    lost: int = 0
    left: int = 0

    def __str__(self) -> str:
        left = f", {self.left} left to the lease" if self.left else ""
        return f"{self.finished} finished, {self.handed_back} handed back, {self.lost} lost{left}"
