"""Forgets what is older than the retention time, a little at a time. Dead letters stay until somebody decides."""

from __future__ import annotations

from dataclasses import dataclass

from regente.engine.database import Database

LIMIT = 1000
MAX_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class Forgotten:
    tasks: int
    events: int
    runners: int
    batches: int = 0

    def __bool__(self) -> bool:
        return bool(self.tasks or self.events or self.runners or self.batches)


class Retention:
    name = "retention"

    def __init__(self, database: Database, every_seconds: float, keep_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._database = database
        self._keep_seconds = keep_seconds

    async def run_once(self) -> Forgotten:
        tasks = await self._forget("forget_tasks")
        events = await self._forget("forget_events")
        runners = await self._database.fetch("forget_runners", {"keep_seconds": self._keep_seconds})
        batches = await self._database.fetch("forget_batches", {"keep_seconds": self._keep_seconds})
        return Forgotten(tasks, events, len(runners), len(batches))

    async def _forget(self, name: str) -> int:
        """In bounded steps, so that no sweep holds locks for long."""
        total = 0
        for _ in range(MAX_ROUNDS):
            gone = await self._database.fetch(name, {"keep_seconds": self._keep_seconds, "limit": LIMIT})
            total += len(gone)
            if len(gone) < LIMIT:
                break
        return total
