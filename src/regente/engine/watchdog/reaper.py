"""Finds runners whose lease ran out and queues their tasks again, or makes them dead letters after
too many crashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regente.engine import log
from regente.engine.crashpoints import crash_point
from regente.engine.database import Database, execute_on, fetch_on, number_array
from regente.engine.watchdog.lanes import sweep_lanes

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
        lost = await self._database.retry_while_away(self._declare_lost, None)
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
        if lost or requeued or dead:
            await sweep_lanes(self._database)
        if requeued:
            self._recovered(requeued)
        if lost:  # once: what is sent again would be counted again
            async with self._database.connection() as connection:
                await execute_on(connection, "count_lost_work", {"ids": number_array(lost)})
        return ReaperResult(len(lost), requeued, dead)

    async def _declare_lost(self) -> list[int]:
        """Mark runners as lost and end their transactions, before their tasks can be queued."""
        async with self._database.connection() as connection, connection.transaction():
            lost = [row[0] for row in await fetch_on(connection, "mark_lost_runners", {})]
            if lost:
                ids = {"ids": number_array(lost)}
                for pid, user, ended in await fetch_on(connection, "end_sessions", ids):
                    log.session_ended(pid, user, ended)
        if lost:
            crash_point("lost.committed")
        return lost
