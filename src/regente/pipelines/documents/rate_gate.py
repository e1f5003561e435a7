"""Delays all requests of a runner after a 429, until the API accepts requests again."""

from __future__ import annotations

import asyncio
import time

from regente.engine.errors import Throttled

PATIENCE_SECONDS = 30.0


class RateGate:
    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._max_wait_seconds = patience_seconds
        self._opens_at = 0.0

    def close_for(self, seconds: float) -> None:
        self._opens_at = max(self._opens_at, time.monotonic() + seconds)

    async def passed(self) -> None:
        """Wait while the gate is closed; for a long wait raise `Throttled`, which costs no try."""
        while (left := self._opens_at - time.monotonic()) > 0:
            if left > self._max_wait_seconds:
                raise Throttled(
                    "the chat API is rate limited", retry_after=left, code="RATE_LIMITED"
                )
            await asyncio.sleep(left)
