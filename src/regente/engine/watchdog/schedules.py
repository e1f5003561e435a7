"""Cron schedules: each time queues one task, however many runners sweep, and in one transaction
with the schedule's next time, so that a runner that is killed loses no time and repeats none.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from psycopg import AsyncConnection

from regente.engine.crashpoints import crash_point
from regente.engine.database import Database, fetch_on
from regente.engine.errors import InvalidInput
from regente.engine.lanes import LaneQueue, look_at_lanes

LIMIT = 100
MAX_TIMES = 1000  # of one schedule in one transaction
MAX_WAITING = 1000  # runs of one schedule
LATE_SECONDS = 60.0  # at least, until a time is missed


class Due(NamedTuple):
    """The times of a schedule that have come: those to run, and those that were missed."""

    runs: list[datetime]
    missed: list[datetime]
    next_at: datetime


class ScheduleSweep:
    name = "schedules"

    def __init__(self, database: Database, every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._database = database
        self._late = timedelta(seconds=max(LATE_SECONDS, 2 * every_seconds))

    async def run_once(self) -> list[str]:
        """The names of the schedules that queued a task."""
        fired, lanes = await self._start_waiting()
        while True:
            names, queues, more = await self._fire_due()
            fired += names
            lanes += queues
            if not more:
                break
        if fired:
            crash_point("schedule.fired")
        if lanes:
            await look_at_lanes(self._database.fetch, lanes)
        return fired

    async def _start_waiting(self) -> tuple[list[str], list[LaneQueue]]:
        """Queue the runs that have waited for the end of the one before."""
        fired: list[str] = []
        lanes: list[LaneQueue] = []
        names: list[str] = [""]
        while names:
            async with self._database.transaction() as connection:
                page = {"after": names[-1], "limit": LIMIT}
                names = [row[0] for row in await fetch_on(connection, "waiting_schedules", page)]
                for name in names:
                    rows = await fetch_on(connection, "start_waiting_run", {"name": name})
                    _note(name, rows, fired, lanes)
        return fired, lanes

    async def _fire_due(self) -> tuple[list[str], list[LaneQueue], bool]:
        """Deal with times that have come; the last value is true when more may be due."""
        fired: list[str] = []
        lanes: list[LaneQueue] = []
        more = False
        async with self._database.transaction() as connection:
            limits = {"limit": LIMIT, "max_waiting": MAX_WAITING}
            due = await fetch_on(connection, "due_schedules", limits)
            for name, cron, timezone, next_at, catch_up, now in due:
                try:
                    found = due_times(cron, timezone, next_at, now)
                except InvalidInput as error:  # edited by hand: it must not stop the others
                    await _disable(connection, name, str(error))
                    continue
                params = _divide(found, catch_up, now, self._late)._asdict()
                rows = await fetch_on(connection, "fire_schedule", {"name": name, **params})
                _note(name, rows, fired, lanes)
                more |= found.next_at <= now
            if due:
                crash_point("schedule.before_commit")
        return fired, lanes, more or len(due) == LIMIT


def next_time(cron: str, timezone: str, after: datetime) -> datetime:
    """The first time after `after` at which the expression fires, by the wall clock of the time
    zone."""
    return next(times_after(cron, timezone, after))


def times_after(cron: str, timezone: str, after: datetime) -> Iterator[datetime]:
    try:
        times = CronSim(cron, after.astimezone(ZoneInfo(timezone)))
        return chain([next(times)], times)
    except (CronSimError, StopIteration) as error:
        raise InvalidInput(f"{cron!r} is not a cron expression that ever fires: {error}") from error
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(f"{timezone!r} is not a time zone") from error


def due_times(cron: str, timezone: str, next_at: datetime, now: datetime) -> Due:
    """From `next_at` to now, at most `MAX_TIMES`, all as runs; and the time after these."""
    times: list[datetime] = []
    for time in chain([next_at], times_after(cron, timezone, next_at)):
        if time > now or len(times) == MAX_TIMES:
            return Due(times, [], time)
        times.append(time)
    raise InvalidInput(f"{cron!r} does not fire again")


def _divide(due: Due, catch_up: str, now: datetime, late: timedelta) -> Due:
    """Which of these times are run, and which were missed."""
    if catch_up == "all":
        return due
    reaches_now = due.next_at > now
    last = due.runs[-1] if reaches_now else None
    if last is None or (catch_up == "none" and last < now - late):
        return Due([], due.runs, due.next_at)
    return Due([last], due.runs[:-1], due.next_at)


def _note(name: str, rows: list[Any], fired: list[str], lanes: list[LaneQueue]) -> None:
    for lane, pipeline, *_ in rows:
        fired.append(name)
        if lane is not None:
            lanes.append((lane, pipeline))


async def _disable(connection: AsyncConnection[Any], name: str, reason: str) -> None:
    await fetch_on(connection, "disable_schedule", {"name": name, "reason": reason})
