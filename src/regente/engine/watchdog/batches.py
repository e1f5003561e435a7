"""Reviews open batches: marks those that started, stalled or completed. Wakes tasks that wait for
their children, which are batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from regente.engine.crashpoints import crash_point
from regente.engine.database import Database, number_array

GATHER_SECONDS = 0.02
PAUSE_SECONDS = 0.5


class BatchReview:
    name = "batches"

    def __init__(self, database: Database, every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._database = database

    async def run_once(self) -> list[str]:
        await self._database.fetch("cancel_orphans")
        changed = await review_batches(self._database, all_open=True)
        await self._database.fetch("wake_parents", {"batches": None})
        return changed


async def review_batches(
    database: Database, touched: Iterable[int] = (), *, all_open: bool = False
) -> list[str]:
    """Review the `touched` batches, with `all_open` every open one; returns the changes."""
    params = {"touched": number_array(sorted(touched)), "all_open": all_open}
    changed = [row[1:4] for row in await database.fetch("review_batches", params)]
    if any(after == "completed" for *_, after in changed):
        crash_point("batch.closed")
    return [f"{name}: {before} → {after}" for name, before, after in changed]


class TouchedBatches:
    """The batches of tasks that ended in a runner since its last review, and the tasks that were
    canceled, with which their children end."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._touched: set[int] = set()
        self._canceled: set[int] = set()
        self._news = asyncio.Event()
        self._reviewing = asyncio.Lock()

    @property
    def are_left(self) -> bool:
        """Whether some are to be reviewed, or reviewed again."""
        return bool(self._touched or self._canceled)

    def add_canceled(self, task_id: int) -> None:
        self._canceled.add(task_id)
        self._news.set()

    def add(self, batch_id: int) -> None:
        self._touched.add(batch_id)
        self._news.set()

    async def review_soon(self) -> None:
        """Wait until a batch is touched, review it soon, and then no other for a while."""
        await self._news.wait()
        self._news.clear()
        await asyncio.sleep(GATHER_SECONDS)
        await self.review()
        await asyncio.sleep(PAUSE_SECONDS)

    async def review(self) -> None:
        """Review them now, after a review that is under way."""
        async with self._reviewing:
            await self._review()

    async def _review(self) -> None:
        touched, self._touched = self._touched, set()
        canceled, self._canceled = self._canceled, set()
        missed = 0
        try:
            if canceled:
                ids = number_array(sorted(canceled))
                await self._database.fetch("cancel_children", {"parents": ids})
            if touched:
                await review_batches(self._database, touched)
                params = {"batches": number_array(sorted(touched))}
                [(missed,)] = await self._database.fetch("wake_parents", params)
        except BaseException:  # also when it is cancelled, at the end of the runner
            self._touched |= touched
            self._canceled |= canceled
            self._news.set()
            raise
        if missed:  # their attempt was just ending: look again
            self._touched |= touched
            self._news.set()
