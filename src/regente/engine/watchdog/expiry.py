"""Fails tasks that were first started longer ago than their pipeline's `expire_after`."""

from __future__ import annotations

from regente.engine.database import Database

LIMIT = 1000


class ExpirySweep:
    name = "expiry"

    def __init__(self, database: Database, every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._database = database

    async def run_once(self) -> int:
        total = 0
        while True:
            expired = await self._database.fetch("expire", {"limit": LIMIT})
            total += len(expired)
            if len(expired) < LIMIT:
                return total
