"""Ends background work for certain. In Python 3.11 `asyncio.wait_for`, and with it psycopg,
swallows a cancellation that meets the very event it waits for; one `cancel()` is then not enough,
and waiting for its effect would be waiting for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

CANCEL_EVERY_SECONDS = 0.1


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Returns when all have ended; what they raised is nobody's concern any more."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        ended, pending = await asyncio.wait(pending, timeout=CANCEL_EVERY_SECONDS)
        for task in ended:
            if not task.cancelled():
                task.exception()
