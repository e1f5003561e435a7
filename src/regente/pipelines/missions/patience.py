"""Bearing with the other side: a worker or writer that restarts is waited for, one that asks for rest gets it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from regente.engine.task import Task
from regente.fleet.http import PASSING, CallFailed, Trouble

T = TypeVar("T")
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0


async def patiently(task: Task[Any], call: Callable[[], Awaitable[T]], seconds: float) -> T:
    """The call's answer; what may pass is tried again for so long. Only for calls that may be repeated."""
    deadline = time.monotonic() + seconds
    pause_seconds = min(FIRST_PAUSE_SECONDS, seconds / 10)
    while True:
        try:
            return await call()
        except CallFailed as error:
            if error.trouble is Trouble.THROTTLED:
                pause_seconds = max(pause_seconds, min(error.retry_after or pause_seconds, seconds))
            elif error.trouble not in PASSING:
                raise
            if time.monotonic() + pause_seconds > deadline:
                raise
        await task.heartbeat()
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 2, MAX_PAUSE_SECONDS)
