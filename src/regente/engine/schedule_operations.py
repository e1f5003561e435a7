"""What people do with schedules: add, pause, resume and remove them, see their last and next
runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

from regente.engine.codec import is_storable
from regente.engine.database import ClientDatabase, ReadsRows, fetch_on
from regente.engine.errors import InvalidInput, NotFound
from regente.engine.models import ScheduleRun
from regente.engine.watchdog.schedules import next_time, times_after

Overlap = Literal["allow", "skip", "queue"]
CatchUp = Literal["none", "one", "all"]
MAX_PAGE = 1000
MAX_NEXT_RUNS = 100
MAX_JITTER_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class ScheduleRules:
    """When a schedule queues its tasks."""

    cron: str
    timezone: str
    overlap: Overlap
    catch_up: CatchUp
    jitter_seconds: float | None
    due_as: str | None = None

    def __post_init__(self) -> None:
        for name, known in (("overlap", Overlap), ("catch_up", CatchUp)):
            if getattr(self, name) not in get_args(known):
                options = ", ".join(get_args(known))
                raise InvalidInput(f"{name} is one of {options}, not {getattr(self, name)!r}")
        if self.due_as is not None and not str(self.due_as).isidentifier():
            raise InvalidInput(f"due_as is the name of an argument, not {self.due_as!r}")
        jitter = self.jitter_seconds
        if not isinstance(jitter, int | float) or not 0 <= jitter <= MAX_JITTER_SECONDS:
            raise InvalidInput(f"jitter is 0 to {MAX_JITTER_SECONDS:,.0f} seconds, not {jitter!r}")


class ScheduleOperations:
    def __init__(self, database: ClientDatabase, reads: ReadsRows) -> None:
        self._database = database
        self._reads = reads

    async def first_time(self, rules: ScheduleRules) -> datetime:
        now = (await self._database.fetch("now"))[0][0]
        return next_time(rules.cron, rules.timezone, now)

    async def put(
        self, name: str, rules: ScheduleRules, first: datetime, task: dict[str, Any]
    ) -> datetime:
        """Store the schedule; `task` are the columns of its tasks."""
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not is_storable(name):
            raise InvalidInput("a schedule's name has 1 to 200 characters")
        params = {
            **task,
            "name": name,
            "cron": rules.cron,
            "timezone": rules.timezone,
            "overlap": rules.overlap,
            "catch_up": rules.catch_up,
            "jitter_seconds": rules.jitter_seconds,
            "due_as": rules.due_as,
            "next_at": first,
        }
        await self._database.fetch("put_schedule", params)
        return first

    async def remove(self, name: str) -> None:
        if not await self._database.fetch("remove_schedule", {"name": _checked(name)}):
            raise missing(name)

    async def every(self) -> list[dict[str, Any]]:
        return await self._reads.fetch_dicts("list_schedules", {"name": None})

    async def show(self, name: str) -> dict[str, Any]:
        rows = await self._reads.fetch_dicts("list_schedules", {"name": _checked(name)})
        if not rows:
            raise missing(name)
        return rows[0]

    async def pause(self, name: str, details: str | None) -> None:
        params = {"name": _checked(name), "details": details}
        if not await self._database.fetch("pause_schedule", params):
            raise missing(name)

    async def resume(self, name: str, skip_missed: bool, details: str | None) -> None:
        async with self._database.transaction() as connection:
            rows = await fetch_on(connection, "schedule_to_resume", {"name": _checked(name)})
            if not rows:
                raise missing(name)
            [(cron, timezone, now)] = rows
            next_at = next_time(cron, timezone, now) if skip_missed else None
            params = {"name": name, "next_at": next_at, "details": details}
            await fetch_on(connection, "resume_schedule", params)

    async def runs(self, name: str, before: datetime | None, limit: int) -> list[ScheduleRun]:
        await self.show(name)
        params = {"name": name, "before": before, "limit": max(1, min(limit, MAX_PAGE))}
        return [
            ScheduleRun(**row) for row in await self._reads.fetch_dicts("schedule_runs", params)
        ]

    async def next_runs(self, name: str, count: int) -> list[datetime]:
        found = await self.show(name)
        if found["state"] != "enabled":
            return []
        first = found["next_at"].astimezone(ZoneInfo(found["timezone"]))
        times = chain([first], times_after(found["cron"], found["timezone"], first))
        return list(islice(times, max(1, min(count, MAX_NEXT_RUNS))))


def with_time(args: Any, due_as: str | None, time: datetime) -> Any:
    """The arguments of the run at that time, to be checked before it comes."""
    if due_as is None:
        return args
    if not isinstance(args, dict):
        raise InvalidInput("with due_as the arguments are a dict")
    return {**args, due_as: f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}


def _checked(name: object) -> str:
    if not isinstance(name, str) or not is_storable(name):
        raise InvalidInput("a schedule's name has 1 to 200 characters")
    return name


def missing(name: str) -> NotFound:
    return NotFound(f"there is no schedule {name!r}")
