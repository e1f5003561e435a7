"""Finds runners whose lease ran out and queues their tasks again, or makes them dead letters after
too many crashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regente.engine.crashpoints import crash_point
from regente.engine.database import Database

LIMIT = 1000


@dataclass(frozen=True, slots=True)
class ReaperResult:
    lost_runners: int
    requeued: int
    dead: int

    def __bool__(self) -> bool:
        return bool(self.lost_runners or self.requeued or self.dead)


class Reaper:
    name = "reaper"

    def __init__(
        self,
        database: Database,
        every_seconds: float,
        max_crashes: int,
        recovered: Callable[[int], None],
    ) -> None:
        self.every_seconds = every_seconds
        self._database = database
        self._max_crashes = max_crashes
        self._recovered = recovered

    async def run_once(self) -> ReaperResult:
        lost = await self._database.fetch("mark_lost_runners")
        requeued = dead = 0
        while True:
            rows = await self._database.fetch(
                "reap", {"limit": LIMIT, "max_crashes": self._max_crashes}
            )
            if rows:
                crash_point("reap.committed")
            requeued += sum(status == "queued" for _, status, _ in rows)
            dead += sum(status == "failed" for _, status, _ in rows)
            if len(rows) < LIMIT:
                break
        if requeued:
            self._recovered(requeued)
        return ReaperResult(len(lost), requeued, dead)
