"""Lanes: what shares a limit, such as a target host, a tenant or an API key. Here are their limits,
names, and what an attempt's end says about its lane."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from regente.engine.codec import is_storable
from regente.engine.database import text_array
from regente.engine.errors import (
    Blocked,
    DatabaseUnavailable,
    Fatal,
    Held,
    InvalidInput,
    LaneBusy,
    RowLocked,
    Skip,
    Throttled,
)
from regente.engine.outcome import Completed, Ended, Outcome

MAX_NAME_CHARACTERS = 200
MAX_CONCURRENCY = 1_000_000
MAX_WEIGHT = 1_000
MIN_RATE, MAX_RATE = 1e-6, 100_000.0

Verdict = Literal["passed", "failed", "blocked", "throttled", "untold"]

# What waits in a lane for one pipeline: the lane and the pipeline.
LaneQueue = tuple[str, str]
# The queue of a lane for one pipeline, or with None for all of them.
LaneQueues = tuple[str, str | None]

Fetch = Callable[[str, dict[str, Any]], Awaitable[list[tuple[Any, ...]]]]

_OWN_CODES = (RowLocked.code, DatabaseUnavailable.code, LaneBusy.code)
_UNTOLD = (Fatal, InvalidInput, DatabaseUnavailable, LaneBusy)


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """The limits of a pipeline's lanes; each lane may get its own at run time. None: no limit.

    `concurrency` is how many tasks of a lane run at once, in all runners together. `rate` is how
    many start in a second (a token bucket that holds `burst`, by default those of one second); it
    falls to `min_rate`, by default a sixteenth, while tasks are blocked or throttled. A lane with
    twice the `weight` gets twice the turns. After `breaker` failures in a row the lane is parked
    and tried with one task at a time; 0: never.
    """

    concurrency: int | None = None
    rate: float | None = None
    burst: int | None = None
    min_rate: float | None = None
    weight: int | None = None
    breaker: int | None = 20

    def __post_init__(self) -> None:
        _check_whole("concurrency", self.concurrency, 1, MAX_CONCURRENCY)
        _check_rate("rate", self.rate)
        _check_whole("burst", self.burst, 1, MAX_CONCURRENCY)
        _check_rate("min_rate", self.min_rate)
        _check_whole("weight", self.weight, 1, MAX_WEIGHT)
        _check_whole("breaker", self.breaker, 0, MAX_CONCURRENCY)
        if self.min_rate is not None and self.rate is not None and self.min_rate > self.rate:
            raise InvalidInput(f"min_rate {self.min_rate} is more than the rate {self.rate}")


@dataclass(frozen=True, slots=True)
class Lane:
    """The lane of calls (`task.in_lane`, or `lane=` of a step): its name, and the limits of the
    lane unless it has its own. Without `limits`: those of the task's pipeline."""

    name: str
    limits: LaneLimits | None = None

    def __post_init__(self) -> None:
        if checked_lane(self.name) is None:
            raise InvalidInput("the lane of a call has a name")


def checked_lane(name: object) -> str | None:
    """The name of a lane, or None; `InvalidInput` when it cannot be one."""
    if name is None:
        return None
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARACTERS:
        raise InvalidInput(f"a lane's name has 1 to {MAX_NAME_CHARACTERS} characters")
    if not is_storable(name):
        raise InvalidInput("the lane's name contains a character that PostgreSQL cannot store")
    return name


class LaneEnd(NamedTuple):
    """The end of an attempt in a lane."""

    lane: str
    pipeline: str
    task_id: int
    verdict: Verdict
    park_seconds: float = 0.0


def verdict_of(outcome: Outcome) -> tuple[Verdict, float]:
    """What an outcome says about the lane, and for how many seconds it has to be parked."""
    if isinstance(outcome, Completed) or outcome.status == "skipped":
        return "passed", 0.0
    failure = outcome.failure
    if failure is None or failure.is_told or failure.code in _OWN_CODES:
        return "untold", 0.0
    if failure.failure_class == "fatal":
        return "untold", 0.0
    if failure.failure_class == "throttled":
        return "throttled", _park_seconds(outcome)
    return ("blocked" if failure.failure_class == "blocked" else "failed"), 0.0


def verdict_of_call(error: BaseException | None) -> tuple[Verdict, float]:
    """The same of a call that raised this error, or none."""
    if isinstance(error, Held) and error.__cause__ is not None:  # a call of unknown outcome
        return verdict_of_call(error.__cause__)
    if error is None or isinstance(error, Skip):
        return "passed", 0.0
    if not isinstance(error, Exception) or isinstance(error, _UNTOLD):
        return "untold", 0.0
    if getattr(error, "code", None) in _OWN_CODES:
        return "untold", 0.0
    if isinstance(error, Throttled):
        return "throttled", max(0.0, error.retry_after)
    return ("blocked" if isinstance(error, Blocked) else "failed"), 0.0


def _park_seconds(outcome: Ended) -> float:
    seconds = outcome.delay_seconds or 0.0
    return seconds if math.isfinite(seconds) else 0.0


async def look_at_lanes(fetch: Fetch, queues: Iterable[LaneQueues]) -> list[tuple[str, float]]:
    """Make the queues of these lanes ready that have a task and room for it; the pipelines that
    have such lanes, and in how many seconds the first is ready."""
    wanted = sorted(set(queues), key=lambda queue: (queue[0], queue[1] or ""))
    params = {
        "lanes": text_array([lane for lane, _ in wanted]),
        "pipelines": text_array([pipeline for _, pipeline in wanted]),
    }
    rows = await fetch("look_at_lanes", params)
    return [(pipeline, due_seconds) for pipeline, due_seconds, _ in rows]


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"{name} is a whole number from {least} to {most:,}, not {value!r}")


def _check_rate(name: str, value: Any) -> None:
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not MIN_RATE <= value <= MAX_RATE:
        raise InvalidInput(
            f"{name} is tasks per second, from {MIN_RATE:f} to {MAX_RATE:,.0f}, not {value!r}"
        )
