"""Deletes tasks, events, runners, batches and runs of schedules that are older than the retention
time, in pages, so that no statement holds locks for long.

Each sweep reads the setting, so a change needs no restart. Dead letters are kept until they are
retried or discarded, the tasks of pipelines with `keep` until a person sets a time, and the audit
log for a time of its own, which no setting at run time shortens."""

from __future__ import annotations

from dataclasses import dataclass

from regente.engine.database import Database
from regente.engine.retention import AUDIT_DAYS, DAY_SECONDS, MIN_AUDIT_DAYS, RetentionTime

SWEEPS_FROM_THE_START = 24
"""Between them a sweep begins after the tasks and events that the last one found to be kept."""


@dataclass(frozen=True, slots=True)
class RetentionResult:
    tasks: int
    events: int
    runners: int
    batches: int = 0
    schedule_runs: int = 0

    def __bool__(self) -> bool:
        counts = (self.tasks, self.events, self.runners, self.batches, self.schedule_runs)
        return any(counts)


class RetentionSweep:
    name = "retention"

    def __init__(
        self,
        database: Database,
        every_seconds: float,
        keep_seconds: float,
        audit_seconds: float = AUDIT_DAYS * DAY_SECONDS,
        *,
        was_set: bool = False,
    ) -> None:
        self.every_seconds = every_seconds
        self._audit_seconds = max(audit_seconds, MIN_AUDIT_DAYS * DAY_SECONDS)
        self._database = database
        self._retention = RetentionTime(database, keep_seconds / DAY_SECONDS, was_set=was_set)
        self._sweeps = 0
        self._first_task = 0
        self._first_event = ("0", 0)

    async def run_once(self) -> RetentionResult:
        days, was_set = await self._retention.days_and_source()
        keep_seconds = days * DAY_SECONDS
        if was_set or self._sweeps % SWEEPS_FROM_THE_START == 0:
            self._first_task, self._first_event = 0, ("0", 0)
        self._sweeps += 1
        tasks = await self._forget_tasks(keep_seconds, was_set)
        events = await self._forget_events(keep_seconds, was_set)
        runners = await self._database.fetch("forget_runners", {"keep_seconds": keep_seconds})
        batches = await self._database.fetch("forget_batches", {"keep_seconds": keep_seconds})
        runs = await self._database.fetch("forget_schedule_runs", {"keep_seconds": keep_seconds})
        return RetentionResult(tasks, events, len(runners), len(batches), len(runs))

    async def _forget_tasks(self, keep_seconds: float, kept_too: bool) -> int:
        total, after, older, skip = 0, self._first_task, True, True
        while older:
            params = {"after": after, "keep_seconds": keep_seconds, "kept_too": kept_too}
            [(gone, after, older, only_kept)] = await self._database.fetch("forget_tasks", params)
            total += gone
            skip = skip and older and only_kept
            self._first_task = after if skip else self._first_task
        return total

    async def _forget_events(self, keep_seconds: float, kept_too: bool) -> int:
        total, after, older, skip = 0, self._first_event, True, True
        while older:
            params = {
                "after_txid": after[0],
                "after_id": after[1],
                "keep_seconds": keep_seconds,
                "audit_seconds": self._audit_seconds,
                "kept_too": kept_too,
            }
            [row] = await self._database.fetch("forget_events", params)
            gone, txid, event_id, older, only_kept = row
            total, after = total + gone, (txid, event_id)
            skip = skip and older and only_kept
            self._first_event = after if skip else self._first_event
        return total
