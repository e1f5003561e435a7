"""Waits until a condition holds. Tests never sleep for a fixed time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

TIMEOUT_SECONDS = 60.0  # until a test fails; says nothing about the expected duration
_POLL_SECONDS = 0.02


def eventually(predicate: Callable[[], T], *, within_seconds: float = TIMEOUT_SECONDS) -> T:
    """The predicate's first true value; fails the test when there is none in time."""
    deadline = time.monotonic() + within_seconds
    while not (value := predicate()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_seconds} s; the last value was {value!r}")
        time.sleep(_POLL_SECONDS)
    return value


async def eventually_async(
    predicate: Callable[[], Awaitable[T]],
    *,
    within_seconds: float = TIMEOUT_SECONDS,
    look_every_seconds: float = _POLL_SECONDS,
) -> T:
    deadline = time.monotonic() + within_seconds
    while not (value := await predicate()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_seconds} s; the last value was {value!r}")
        await asyncio.sleep(look_every_seconds)
    return value
