"""The retry policy of a pipeline, and helpers for its seconds."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential backoff: `first` seconds, times `factor` for each further try, at most `maximum`.

    With `jitter` each wait is between half of that and all of it, so that tasks that failed
    together are not retried together. `max_attempts` counts attempts that failed by the task's own
    fault: throttling, deploys and crashes of the runner do not use them up.
    """

    max_attempts: int = 3
    first: float = 5.0
    factor: float = 2.0
    maximum: float = 3600.0
    jitter: bool = True

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("Retry.max_attempts must be at least 1")
        if not (
            0 <= self.first < math.inf
            and 1 <= self.factor < math.inf
            and 0 <= self.maximum < math.inf
        ):
            raise ValueError(
                "Retry needs first >= 0, factor >= 1 and maximum >= 0, all of them finite"
            )

    def delay_seconds(self, failed_attempts: int) -> float:
        """The wait after the n-th failed attempt, n from 1."""
        try:
            whole = min(self.first * self.factor ** (failed_attempts - 1), self.maximum)
        except OverflowError:
            whole = self.maximum
        return whole * random.uniform(0.5, 1.0) if self.jitter else whole  # noqa: S311 - spreads load, hides nothing


def seconds(value: float) -> float:
    return float(value)


def minutes(value: float) -> float:
    return value * 60.0


def hours(value: float) -> float:
    return value * 3600.0
