"""Deletes tasks, events, runners and batches that are older than the retention time, in pages, so
that no statement holds locks for long.

Each sweep reads the setting, so a change needs no restart. Dead letters are kept until they are
retried or discarded."""

from __future__ import annotations

from dataclasses import dataclass

from regente.engine.database import Database
from regente.engine.retention import DAY_SECONDS, RetentionTime


@dataclass(frozen=True, slots=True)
class RetentionResult:
    tasks: int
    events: int
    runners: int
    batches: int = 0

    def __bool__(self) -> bool:
        return bool(self.tasks or self.events or self.runners or self.batches)


class RetentionSweep:
    name = "retention"

    def __init__(self, database: Database, every_seconds: float, keep_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._database = database
        self._retention = RetentionTime(database, keep_seconds / DAY_SECONDS)

    async def run_once(self) -> RetentionResult:
        keep_seconds = await self._retention.days() * DAY_SECONDS
        tasks = await self._forget_tasks(keep_seconds)
        events = await self._forget_events(keep_seconds)
        runners = await self._database.fetch("forget_runners", {"keep_seconds": keep_seconds})
        batches = await self._database.fetch("forget_batches", {"keep_seconds": keep_seconds})
        return RetentionResult(tasks, events, len(runners), len(batches))

    async def _forget_tasks(self, keep_seconds: float) -> int:
        total, after, older = 0, 0, True
        while older:
            [(gone, after, older)] = await self._database.fetch(
                "forget_tasks", {"after": after, "keep_seconds": keep_seconds}
            )
            total += gone
        return total

    async def _forget_events(self, keep_seconds: float) -> int:
        total, after, older = 0, ("0", 0), True
        while older:
            params = {"after_txid": after[0], "after_id": after[1], "keep_seconds": keep_seconds}
            [(gone, *last, older)] = await self._database.fetch("forget_events", params)
            total, after = total + gone, (last[0], last[1])
        return total
