"""Reviews open batches: marks those that started, stalled or completed."""

from __future__ import annotations

from collections.abc import Iterable

from regente.engine.crashpoints import crash_point
from regente.engine.database import Database, number_array
from regente.engine.errors import DatabaseUnavailable


class BatchReview:
    name = "batches"

    def __init__(self, database: Database, every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._database = database

    async def run_once(self) -> list[str]:
        return await review_batches(self._database, all_open=True)


async def review_batches(
    database: Database, touched: Iterable[int] = (), *, all_open: bool = False
) -> list[str]:
    """Review the `touched` batches, with `all_open` every open one; returns the changes."""
    params = {"touched": number_array(sorted(touched)), "all_open": all_open}
    changed = await database.fetch("review_batches", params)
    if any(after == "completed" for *_, after in changed):
        crash_point("batch.closed")
    return [f"{name}: {before} → {after}" for _, name, before, after in changed]


class TouchedBatches:
    """The batches of tasks that ended in a runner since its last review."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._touched: set[int] = set()

    def add(self, batch_id: int) -> None:
        self._touched.add(batch_id)

    async def review(self) -> None:
        if not self._touched:
            return
        touched, self._touched = self._touched, set()
        try:
            await review_batches(self._database, touched)
        except DatabaseUnavailable:
            self._touched |= touched
            raise
