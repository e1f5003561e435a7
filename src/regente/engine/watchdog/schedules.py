"""Cron schedules: each firing queues one task with the firing's time as its key, so that several
runners queue it once.

After a downtime a schedule fires once, not once for every missed time.
"""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from regente.engine.crashpoints import crash_point
from regente.engine.database import Database, fetch_on
from regente.engine.errors import InvalidInput
from regente.engine.lanes import LaneQueue, look_at_lanes

LIMIT = 100


class ScheduleSweep:
    name = "schedules"

    def __init__(self, database: Database, every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._database = database

    async def run_once(self) -> list[str]:
        fired: list[str] = []
        lanes: list[LaneQueue] = []
        async with self._database.transaction() as connection:
            for name, pipeline, args, cron, timezone, priority, due_at, lane, now in await fetch_on(
                connection, "due_schedules", {"limit": LIMIT}
            ):
                try:
                    next_at = next_time(cron, timezone, now)
                except (
                    InvalidInput
                ) as error:  # edited by hand: it must not stop the other schedules
                    await fetch_on(
                        connection, "disable_schedule", {"name": name, "reason": str(error)}
                    )
                    continue
                params = {
                    "name": name,
                    "pipeline": pipeline,
                    "args": args,
                    "priority": priority,
                    "lane": lane,
                    "key": f"schedule:{name}:{due_at.isoformat()}",
                    "next_at": next_at,
                }
                if await fetch_on(connection, "fire_schedule", params):
                    fired.append(name)
                    if lane is not None:
                        lanes.append((lane, pipeline))
        if fired:
            crash_point("schedule.fired")
        if lanes:
            await look_at_lanes(self._database.fetch, lanes)
        return fired


def next_time(cron: str, timezone: str, after: datetime) -> datetime:
    """The first time after `after` at which the expression fires, by the wall clock of the time
    zone."""
    try:
        return next(CronSim(cron, after.astimezone(ZoneInfo(timezone))))
    except (CronSimError, StopIteration) as error:
        raise InvalidInput(f"{cron!r} is not a cron expression that ever fires: {error}") from error
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(f"{timezone!r} is not a time zone") from error
