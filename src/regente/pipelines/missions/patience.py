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
from regente.outgoing.http import PASSING, CallFailed, Trouble

T = TypeVar("T")
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0
MOST_RESTS = 10
UNSAID_REST_SECONDS = 60.0
SHORTEST_REST_SECONDS = 0.5
LONGEST_REST_SECONDS = 86_400.0
HANG_UP_SECONDS = 5.0


async def patiently(
    task: Task[Any], call: Callable[[], Awaitable[T]], seconds: float, *, rests: bool = True
) -> T:
    """The call's answer; what may pass is tried again for so long. Only for calls that may be
    repeated.

    One who asks for rest is not away: that time does not count, up to a limit. Without `rests` it
    is raised at once.
    """
    rest_seconds = MOST_RESTS * seconds
    deadline = time.monotonic() + seconds
    pause_seconds = min(FIRST_PAUSE_SECONDS, seconds / 10)
    while True:
        try:
            return await call()
        except CallFailed as error:
            if error.trouble is Trouble.THROTTLED and rests:
                wanted_seconds = max(pause_seconds, error.retry_after or 0.0)
                rest_seconds -= wanted_seconds
                if rest_seconds < 0:
                    raise
                await _rest(task, wanted_seconds)
                deadline += wanted_seconds
                continue
            if error.trouble not in PASSING:
                raise
            if time.monotonic() + pause_seconds > deadline:
                raise
        await task.heartbeat()
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 2, MAX_PAUSE_SECONDS)


def rest_asked_for(retry_after: float | None) -> float:
    """How long one is left alone who said 429, whatever he said of the time."""
    seconds = UNSAID_REST_SECONDS if retry_after is None else retry_after
    return min(max(seconds, SHORTEST_REST_SECONDS), LONGEST_REST_SECONDS)


async def hang_up(task: Task[Any], client: WorkerClient, seconds: float) -> None:
    """End a worker's session and whatever runs in it, as well as can be. What lives on keeps using
    a proxy, or scraping a mission, that others are given: insist a little."""
    task.check_lease()
    with contextlib.suppress(CallFailed):
        await patiently(task, client.end_session, min(HANG_UP_SECONDS, seconds))


async def _rest(task: Task[Any], seconds: float) -> None:
    """With a sign of life now and then."""
    until = time.monotonic() + seconds
    while (left_seconds := until - time.monotonic()) > 0:
        await task.heartbeat()
        await asyncio.sleep(min(left_seconds, MAX_PAUSE_SECONDS))
