"""The retry policy: delays and their bounds."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from regente import Retry, Throttled, hours, minutes, seconds
from regente.engine.pipeline import Registry
from regente.engine.task import Task


def test_the_wait_doubles_up_to_the_maximum() -> None:
    """Z2, W3: 5 s, doubled."""
    retry = Retry(first=5, factor=2, maximum=60, jitter=False)
    assert [retry.delay_seconds(n) for n in range(1, 7)] == [5, 10, 20, 40, 60, 60]


def test_jitter_stays_between_half_and_whole_and_spreads() -> None:
    """Z2: tasks that failed together are spread out."""
    retry = Retry(first=8, factor=2, maximum=3600)
    for failed in (1, 2, 5):
        whole = 8 * 2 ** (failed - 1)
        waits = [retry.delay_seconds(failed) for _ in range(500)]
        assert whole / 2 <= min(waits) < whole * 0.6
        assert whole * 0.9 < max(waits) <= whole


@pytest.mark.parametrize("failed", [1, 64, 1_000, 10**9])
def test_no_number_of_failures_overflows(failed: int) -> None:
    """I7: bounded."""
    assert 0 <= Retry(first=1e6, factor=1e6, maximum=3600).delay_seconds(failed) <= 3600


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": 32_768},
        {"max_attempts": 1_000_000},
        {"max_attempts": 2.5},
        {"first": -1},
        {"factor": 0.5},
        {"maximum": -1},
        {"first": float("nan")},
        {"maximum": float("inf")},
    ],
)
def test_nonsense_is_refused_at_import(options: dict[str, float]) -> None:
    """F15: a delay that PostgreSQL cannot store is refused when the policy is defined."""
    with pytest.raises(ValueError, match=r"Retry"):
        Retry(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "limits",
    [
        {"stall_after": math.inf},
        {"stall_after": math.nan},
        {"stall_after": 1e300},
        {"stall_after": 0},
        {"expire_after": -1},
        {"timeout": timedelta(days=-1)},
        {"grace": math.inf},
        {"grace": -1},
        {"concurrency": 0},
        {"concurrency": -1},
        {"concurrency": 1.5},
        {"concurrency": True},
        {"retry": 3},
        {"retry": 0},
        {"retry": {"max_attempts": 3}},
        {"lane_limits": 5},
    ],
    ids=str,
)
def test_limits_that_no_runner_could_keep_are_refused_at_registration(
    limits: dict[str, Any],
) -> None:
    """F15: instead of a runner that stops at its start, or a pipeline that never runs."""
    with pytest.raises(ValueError, match=rf"{next(iter(limits))} of 'p'"):

        @Registry().pipeline("p", **limits)
        async def run(_: Any) -> None: ...


def test_words_for_time() -> None:
    """Everything is in seconds."""
    assert (seconds(5), minutes(2), hours(1)) == (5.0, 120.0, 3600.0)
    registry = Registry()

    @registry.pipeline("p", stall_after=timedelta(minutes=2), timeout=minutes(1))
    async def run(task: Task) -> None: ...

    found = registry.get("p")
    assert found is not None
    assert (found.stall_after_seconds, found.timeout_seconds) == (120, 60)


@pytest.mark.parametrize("retry_after", [float("inf"), float("nan"), "soon"])
def test_a_throttle_needs_a_number(retry_after: float) -> None:
    """F15: found where it is raised."""
    with pytest.raises(ValueError, match=r"retry_after|could not convert"):
        Throttled(retry_after=retry_after)
