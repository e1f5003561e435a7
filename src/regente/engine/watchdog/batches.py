"""Looks at every open batch: started, moving, stalled, done."""

from __future__ import annotations

from regente.engine.database import Database


class BatchReview:
    name = "batches"

    def __init__(self, database: Database, every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._database = database

    async def run_once(self) -> list[str]:
        changed = await self._database.fetch("review_batches", {"touched": "{}", "all_open": True})
        return [f"{name}: {before} → {after}" for _, name, before, after in changed]
