"""The two scheduled tasks of the original specification: recover stuck quotes, fail old ones.

The engine's watchdog returns stuck and orphaned tasks sooner; these only run in addition.
"""

from __future__ import annotations

from dataclasses import dataclass

from regente.engine.client import Client
from regente.engine.task import Task
from regente.pipelines.quotes.settings import QuotesSettings

QUOTES = "quotes"
RECOVER = "recover_stuck_quotes"
CLEAN_UP = "cleanup_old_processing"
STUCK_SECONDS = 600.0
OLD_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class MaintenanceSchedule:
    pipeline: str
    cron: str


TIMETABLE = (
    MaintenanceSchedule(RECOVER, "*/5 * * * *"),
    MaintenanceSchedule(CLEAN_UP, "0 4 * * *"),
)


class QuoteMaintenance:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def recover_stuck_quotes(self, task: Task) -> dict[str, list[int]]:
        ids = await self._client.recover_stuck(STUCK_SECONDS, pipeline=QUOTES, by=RECOVER)
        return {"recovered": ids}

    async def cleanup_old_processing(self, task: Task) -> dict[str, list[int]]:
        ids = await self._client.give_up_old(
            OLD_SECONDS, pipeline=QUOTES, between_attempts=True, by=CLEAN_UP
        )
        return {"marked_as_error": ids}


async def ensure_timetable(client: Client) -> None:
    """Add the missing schedules; existing ones stay unchanged."""
    known = {row["name"] for row in await client.schedules()}
    for timed in TIMETABLE:
        if timed.pipeline not in known:
            await client.schedule(
                timed.pipeline, timed.pipeline, timed.cron, timezone=QuotesSettings().timezone
            )
