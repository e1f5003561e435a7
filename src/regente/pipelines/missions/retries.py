"""Bearing with the other side: a worker or writer that restarts is waited for, one that asks for
rest gets it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from regente.engine.task import Task
from regente.fleet.clients import WorkerClient
from regente.http_client.client import TRANSIENT, CallFailed, CallFailure

T = TypeVar("T")
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0
MAX_THROTTLES = 10
DEFAULT_THROTTLE_SECONDS = 60.0
MIN_THROTTLE_SECONDS = 0.5
MAX_THROTTLE_SECONDS = 86_400.0
END_SESSION_SECONDS = 5.0


async def with_retries(
    task: Task[Any], call: Callable[[], Awaitable[T]], seconds: float, *, rests: bool = True
) -> T:
    """The call's answer; what may pass is tried again for so long. Only for calls that may be
    repeated.

    One who asks for rest is not away: that time does not count, up to a limit. Without `rests` it
    is raised at once.
    """
    rest_seconds = MAX_THROTTLES * seconds
    deadline = time.monotonic() + seconds
    pause_seconds = min(FIRST_PAUSE_SECONDS, seconds / 10)
    while True:
        try:
            return await call()
        except CallFailed as error:
            if error.failure is CallFailure.THROTTLED and rests:
                wanted_seconds = max(pause_seconds, error.retry_after or 0.0)
                rest_seconds -= wanted_seconds
                if rest_seconds < 0:
                    raise
                await _wait_throttled(task, wanted_seconds)
                deadline += wanted_seconds
                continue
            if error.failure not in TRANSIENT:
                raise
            if time.monotonic() + pause_seconds > deadline:
                raise
        await task.heartbeat()
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 2, MAX_PAUSE_SECONDS)


def throttle_delay(retry_after: float | None) -> float:
    """How long one is left alone who said 429, whatever he said of the time."""
    seconds = DEFAULT_THROTTLE_SECONDS if retry_after is None else retry_after
    return min(max(seconds, MIN_THROTTLE_SECONDS), MAX_THROTTLE_SECONDS)


async def end_session_best_effort(task: Task[Any], client: WorkerClient, seconds: float) -> None:
    """End a worker's session and whatever runs in it, as well as can be. What lives on keeps using
    a proxy, or scraping a mission, that others are given: insist a little."""
    task.check_lease()
    with contextlib.suppress(CallFailed):
        await with_retries(task, client.end_session, min(END_SESSION_SECONDS, seconds))


async def _wait_throttled(task: Task[Any], seconds: float) -> None:
    """With a sign of life now and then."""
    until = time.monotonic() + seconds
    while (left_seconds := until - time.monotonic()) > 0:
        await task.heartbeat()
        await asyncio.sleep(min(left_seconds, MAX_PAUSE_SECONDS))
