"""Checks the invariants by the raw tables, without the engine's queries.

I3 and I4 from the events alone; I5 and I6 by folding the events of each task into a row of its own
and comparing it with the one in `tasks`; I1 and I9 by counting. It uses none of the engine's
queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import psycopg

READ_EVENTS = """
SELECT task_id, id, at, runner_id, attempt, event, details FROM regente.events
WHERE task_id IS NOT NULL ORDER BY task_id, id
"""
READ_TASKS = (
    "SELECT id, status::text, attempt, tries, crashes, runner_id FROM regente.tasks ORDER BY id"
)
READ_BATCHES = """
SELECT b.id, b.status::text, b.total, count(t.id),
       count(t.id) FILTER (WHERE t.status < 'completed'),
       (SELECT count(*) FROM regente.events e WHERE e.batch_id = b.id AND e.task_id IS NULL
        AND e.event IN ('batch_completed', 'batch_failed', 'batch_canceled')) AS ended,
       (SELECT count(*) FROM regente.events e WHERE e.batch_id = b.id AND e.task_id IS NULL
        AND e.event = 'batch_reopened')
FROM regente.batches b LEFT JOIN regente.tasks t ON t.batch_id = b.id GROUP BY b.id
"""

BACK_IN_QUEUE = {
    "task_retried",
    "task_throttled",
    "task_sleeping",
    "task_handed_back",
    "task_held",
    "task_waiting",
    "task_recovered",
    "task_stalled",
}
ENDED = {
    "task_completed": "completed",
    "task_skipped": "skipped",
    "task_failed": "failed",
    "task_canceled": "canceled",
}
TERMINAL = {"completed", "failed", "canceled", "skipped"}
LIVE = {"draft", "queued", "running"}
# By a person or a program, in these states, which they do not end.
WITHOUT_TRANSITION = {
    "task_resolved": {"queued"},
    "task_signaled": LIVE,
    "task_changed": {"draft", "queued"},
    "task_key_freed": LIVE | TERMINAL,
}
# `at` is the start of a transaction, which may precede its snapshot by a moment on a busy machine.
CLOCK_GRAIN = timedelta(milliseconds=250)


@dataclass(slots=True)
class Folded:
    """A task as its events describe it."""

    status: str = ""
    attempt: int = 0
    tries: int = 0
    crashes: int = 0
    runner_id: int | None = None
    ended_at: datetime | None = None
    faults: list[str] = field(default_factory=list)

    def apply(
        self,
        at: datetime,
        runner_id: int | None,
        attempt: int | None,
        event: str,
        details: dict[str, Any],
    ) -> None:
        before = self.status
        if event in ("task_drafted", "task_queued"):
            self._expect(
                before in ("", "draft") if event == "task_queued" else before == "", event, "I5"
            )
            self.status = "draft" if event == "task_drafted" else "queued"
        elif event == "task_claimed":
            self._claim(at, runner_id, attempt)
        elif event == "task_requeued":
            self._expect(before in ("failed", "canceled", "skipped"), event, "I5")
            self.status, self.tries, self.crashes = "queued", 0, 0
        elif event == "task_discarded":
            self._expect(before == "failed", event, "I5")
            self.status = "canceled"
        elif event in WITHOUT_TRANSITION:
            self._expect(before in WITHOUT_TRANSITION[event], event, "I5")
        elif event in BACK_IN_QUEUE or event in ENDED:
            self._release(at, runner_id, attempt, event, details)
        else:
            self._expect(before == "running" and attempt == self.attempt, event, "I3")

    def _claim(self, at: datetime, runner_id: int | None, attempt: int | None) -> None:
        self._expect(self.status == "queued", "task_claimed", "I4")
        self._expect(
            attempt == self.attempt + 1,
            f"task_claimed with fence {attempt} after {self.attempt}",
            "I3",
        )
        if self.ended_at is not None and at < self.ended_at - CLOCK_GRAIN:
            self.faults.append(
                f"I4: claimed at {at}, while the owner before it ended at {self.ended_at}"
            )
        self.status, self.attempt, self.runner_id = "running", attempt or 0, runner_id

    def _release(
        self,
        at: datetime,
        runner_id: int | None,
        attempt: int | None,
        event: str,
        details: dict[str, Any],
    ) -> None:
        if event in BACK_IN_QUEUE or event in ("task_completed", "task_skipped"):
            self._expect(self.status == "running", event, "I5")
        self._expect(self.status not in TERMINAL, event, "I5")
        if self.status == "running":
            self._expect(
                attempt == self.attempt,
                f"{event} with fence {attempt}, held under {self.attempt}",
                "I3",
            )
            self._expect(
                runner_id in (None, self.runner_id),
                f"{event} by runner {runner_id}, held by {self.runner_id}",
                "I4",
            )
        self._charge(event, details)
        self.status, self.runner_id, self.ended_at = ENDED.get(event, "queued"), None, at

    def _charge(self, event: str, details: dict[str, Any]) -> None:
        if details.get("reason") == "runner_lost":
            self._expect(
                details["crashes"] - self.crashes in (0, 1),
                f"{event}: {self.crashes} crashes before",
                "I7",
            )
            self.crashes = details["crashes"]
        elif (
            details.get("reason") == "stalled"
            or "tries" in details
            or (event == "task_failed" and "code" in details)
        ):
            self.tries += 1

    def _expect(self, holds: bool, event: str, invariant: str) -> None:
        if not holds:
            self.faults.append(
                f"{invariant}: {event} on a task that was {self.status or 'not there'} "
                f"(fence {self.attempt})"
            )


def audit(connection: psycopg.Connection[Any]) -> list[str]:
    """Every violated invariant, in words; empty when all hold."""
    return [*_audit_tasks(connection), *_audit_batches(connection)]


def fold_events(connection: psycopg.Connection[Any]) -> Iterator[tuple[int, Folded]]:
    """Each task as its events alone describe it, in the order of the ids."""
    with connection.transaction(), connection.cursor("folding") as cursor:
        cursor.itersize = 20_000
        cursor.execute(READ_EVENTS)
        for task_id, rows in groupby(cursor, key=lambda row: row[0]):
            folded = Folded()
            for _, _, at, runner_id, attempt, event, details in rows:
                folded.apply(
                    at, runner_id, attempt, event, details if isinstance(details, dict) else {}
                )
            yield task_id, folded


def _audit_tasks(connection: psycopg.Connection[Any]) -> Iterator[str]:
    rows = {row[0]: row[1:] for row in connection.execute(READ_TASKS)}
    for task_id, folded in fold_events(connection):
        for fault in folded.faults:
            yield f"task {task_id}: {fault}"
        told = (folded.status, folded.attempt, folded.tries, folded.crashes, folded.runner_id)
        stored = rows.pop(task_id, None)
        if stored != told:
            yield f"task {task_id}: I6: the events tell {told}, the row says {stored}"
    for task_id in rows:
        yield f"task {task_id}: I6: it is there without any event"


def _audit_batches(connection: psycopg.Connection[Any]) -> Iterator[str]:
    for batch_id, status, total, counted, live, ended, reopened in connection.execute(
        READ_BATCHES
    ).fetchall():
        if total != counted:
            yield f"batch {batch_id}: I9: total is {total}, its tasks are {counted}"
        if status == "completed" and live:
            yield f"batch {batch_id}: I9: completed while {live} of its tasks live"
        if ended > reopened + 1:
            yield f"batch {batch_id}: I9: it ended {ended} times and was reopened {reopened} times"


def states(connection: psycopg.Connection[Any]) -> Counter[str]:
    return Counter(
        dict(
            connection.execute(
                "SELECT status::text, count(*) FROM regente.tasks GROUP BY status"
            ).fetchall()
        )
    )
