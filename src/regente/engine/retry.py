"""The retry policy of a pipeline, and helpers for its seconds."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

MAX_ATTEMPTS = 32_767  # a smallint in the database


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
        whole = isinstance(self.max_attempts, int) and not isinstance(self.max_attempts, bool)
        if not whole or not 1 <= self.max_attempts <= MAX_ATTEMPTS:
            raise ValueError(
                f"Retry.max_attempts is a whole number from 1 to {MAX_ATTEMPTS:,}, "
                f"not {self.max_attempts!r}"
            )
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
        # The jitter spreads load; it is not a secret.
        return whole * random.uniform(0.5, 1.0) if self.jitter else whole  # noqa: S311


def outage_wait_seconds(attempt: int) -> float:
    """The wait after the n-th attempt that met a lost database, n from 1: growing, in case the
    attempt itself overloads the server."""
    return min(60.0, 0.5 * 2.0 ** min(attempt - 1, 7))


def seconds(value: float) -> float:
    return float(value)


def minutes(value: float) -> float:
    return value * 60.0


def hours(value: float) -> float:
    return value * 3600.0


def days(value: float) -> float:
    return value * 86_400.0
