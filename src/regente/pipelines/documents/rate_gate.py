"""One gate for all questions of a runner: after a 429 nobody asks until the API wants to be asked
again."""

from __future__ import annotations

import asyncio
import time

from regente.engine.errors import Throttled

PATIENCE_SECONDS = 30.0


class RateGate:
    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience_seconds = patience_seconds
        self._opens_at = 0.0

    def close_for(self, seconds: float) -> None:
        self._opens_at = max(self._opens_at, time.monotonic() + seconds)

    async def passed(self) -> None:
        """Waits while it is closed: here for a short while, for a longer one in the queue, without
        costing an attempt."""
        while (left := self._opens_at - time.monotonic()) > 0:
            if left > self._patience_seconds:
                raise Throttled(
                    "the chat API wants to be left alone", retry_after=left, code="RATE_LIMITED"
                )
            await asyncio.sleep(left)
