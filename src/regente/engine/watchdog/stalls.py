"""Queues stalled tasks again that their own runner, although alive, did not take back."""

from __future__ import annotations

from collections.abc import Callable

from regente.engine.database import Database
from regente.engine.watchdog.lanes import sweep_lanes

LIMIT = 1000


class StallSweep:
    name = "stalls"

    def __init__(
        self, database: Database, every_seconds: float, recovered: Callable[[int], None]
    ) -> None:
        self.every_seconds = every_seconds
        self._database = database
        self._recovered = recovered

    async def run_once(self) -> int:
        released = await self._database.fetch("release_stalled", {"limit": LIMIT})
        if released:
            await sweep_lanes(self._database)
            self._recovered(len(released))
        return len(released)
