"""Cancels background tasks until they have ended. In Python 3.11 `asyncio.wait_for`, and with it
psycopg, swallows a cancellation that meets the event it waits for, so one `cancel()` may not be
enough."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

CANCEL_EVERY_SECONDS = 0.1


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and wait until all have ended; what they raise is dropped."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        ended, pending = await asyncio.wait(pending, timeout=CANCEL_EVERY_SECONDS)
        for task in ended:
            if not task.cancelled():
                task.exception()
