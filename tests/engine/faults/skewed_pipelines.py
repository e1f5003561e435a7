"""Pipelines of runners with wrong clocks: everything that the engine does after a time."""

from __future__ import annotations

import asyncio
import time

from regente import Retry, Task, Throttled, Transient, pipeline

WAIT_SECONDS = 0.3
RETRY = Retry(max_attempts=2, first=WAIT_SECONDS, jitter=False)


@pipeline("skew.clock", retry=RETRY)
async def clock(task: Task) -> float:
    """What this process holds for the time."""
    return time.time()


@pipeline("skew.retried", retry=RETRY)
async def retried(task: Task) -> None:
    if task.tries == 0:
        raise Transient("once")


@pipeline("skew.throttled", retry=RETRY)
async def throttled(task: Task) -> None:
    if task.attempt == 1:
        raise Throttled("once", retry_after=WAIT_SECONDS)


@pipeline("skew.asleep", retry=RETRY)
async def asleep(task: Task) -> None:
    await task.sleep(WAIT_SECONDS)


@pipeline("skew.long", retry=RETRY)
async def long(task: Task) -> None:
    """Runs until its first runner is dead."""
    if task.attempt == 1:
        await asyncio.Event().wait()
