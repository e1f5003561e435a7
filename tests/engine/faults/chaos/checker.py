"""Judges a campaign by the raw tables, the sink and the record of faults, without the engine."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.engine.faults.chaos.environment import Death, Record
from tests.engine.faults.chaos.plan import LEASE_SECONDS, SWEEP_SECONDS
from tests.engine.faults.chaos.workload import EXPECTED
from tests.support.audit import audit
from tests.support.sinks import ExternalSink, results_that_were_not_committed, sink_arrivals

# A statement takes a moment, and the loops of a loaded machine are late by another.
STATEMENT_SECONDS = 0.5
# After the database came back: reconnecting with back-off, and renewing.
RECONNECT_SECONDS = 2.5

Connection = psycopg.Connection[Any]
Task = tuple[int, str, str, int, int, int, str | None]


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    detail: str
    faults: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.faults


class Checker:
    def __init__(
        self,
        connection: Connection,
        drawn: list[tuple[str, dict[str, int]]],
        external: ExternalSink,
        record: Record,
    ):
        self._connection = connection
        self._drawn = drawn
        self._external = external
        self._record = record
        rows: list[Any] = connection.execute(
            "SELECT (args ->> 'n')::integer, id, pipeline, status::text, attempt, tries, "
            "crashes, error_code FROM regente.tasks"
        ).fetchall()
        self._by_number: dict[int, list[Task]] = defaultdict(list)
        for number, *task in rows:
            self._by_number[number].append((*task,))
        self._tasks = {task[0]: task for tasks in self._by_number.values() for task in tasks}

    def findings(self) -> Iterator[Finding]:
        yield self._nothing_lost()
        yield self._nothing_doubled()
        yield self._external_effects()
        yield self._nothing_charged()
        yield self._audit()
        yield self._batches()
        yield self._recovery()

    def _nothing_lost(self) -> Finding:
        faults = []
        dead_by_crashes = 0
        for number, (pipeline, _) in enumerate(self._drawn):
            found = self._by_number.get(number, [])
            if len(found) != 1:
                faults.append(f"task {number} was accepted and is there {len(found)} times")
                continue
            task_id, _, status, attempt, _, crashes, code = found[0]
            if status == "failed" and code == "CRASHED" and self._deaths_of(task_id) >= 3:
                dead_by_crashes += 1
            elif status != EXPECTED[pipeline].status:
                faults.append(
                    f"task {task_id} ({pipeline}) is {status} ({code}) after {attempt} "
                    f"attempts, {crashes} crashes"
                )
        counts = Counter(task[2] for task in self._tasks.values())
        detail = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        return Finding(
            "I1 nothing lost", f"{detail}; {dead_by_crashes} met three deaths", tuple(faults)
        )

    def _deaths_of(self, task_id: int) -> int:
        row = self._connection.execute(
            "SELECT count(*) FROM regente.events WHERE task_id = %s AND details ->> "
            "'reason' = 'runner_lost'",
            (task_id,),
        ).fetchone()
        return int(row[0]) if row else 0

    def _nothing_doubled(self) -> Finding:
        arrivals = sink_arrivals(self._connection)
        faults = [f"{key} arrived {count} times" for key, count in arrivals.items() if count != 1]
        faults += [
            f"task {task_id} recorded {output} for {step}, whose row is {row_id}"
            for task_id, step, output, row_id in results_that_were_not_committed(self._connection)
        ]
        for task_id, pipeline, status, *_ in self._tasks.values():
            wanted = EXPECTED[pipeline].stored if status == "completed" else ()
            faults += [
                f"task {task_id} completed without {step}"
                for step in wanted
                if (task_id, step) not in arrivals
            ]
        return Finding(
            "I2 nothing doubled", f"{len(arrivals)} effects, each exactly once", tuple(faults)
        )

    def _external_effects(self) -> Finding:
        """At most once per attempt, and never again after an attempt that recorded the step."""
        recorded = {
            (task_id, name): attempt
            for task_id, name, attempt in self._connection.execute(
                "SELECT task_id, name, attempt FROM regente.steps"
            )
        }
        by_key: dict[str, list[int]] = defaultdict(list)
        for key, attempt in self._external.arrivals():
            by_key[key].append(attempt)
        faults = []
        for key, attempts in by_key.items():
            number, step = task_and_step(key)
            if len(set(attempts)) != len(attempts):
                faults.append(f"{key}: one attempt called twice: {attempts}")
            if max(attempts) > recorded.get((number, step), 10**9):
                faults.append(f"{key}: called again after it was recorded: {attempts}")
        called = {task_and_step(key) for key in by_key}
        if len(called) < len(by_key):
            faults.append("a step was called under several keys")
        for task_id, pipeline, status, *_ in self._tasks.values():
            for step in EXPECTED[pipeline].external:
                if status == "completed" and (task_id, step) not in called:
                    faults.append(f"task {task_id} completed without calling {step}")
        repeated = sum(len(attempts) > 1 for attempts in by_key.values())
        return Finding(
            "I2 external effects",
            f"{len(by_key)} keys, {repeated} called more than once",
            tuple(faults),
        )

    def _nothing_charged(self) -> Finding:
        faults = [
            (
                f"task {task_id} ({pipeline}): {tries} tries charged instead of "
                f"{EXPECTED[pipeline].tries}, last error {code}"
            )
            for task_id, pipeline, _, _, tries, _, code in self._tasks.values()
            if tries != EXPECTED[pipeline].tries and code != "CRASHED"
        ]
        crashes = Counter(task[5] for task in self._tasks.values())
        detail = "crashes met: " + ", ".join(
            f"{count} × {number}" for number, count in sorted(crashes.items())
        )
        return Finding("I7 no attempt charged for faults", detail, tuple(faults))

    def _audit(self) -> Finding:
        row = self._connection.execute("SELECT count(*) FROM regente.events").fetchone()
        return Finding(
            "I3–I6 audit of the events",
            f"{row[0] if row else 0} events folded",
            tuple(audit(self._connection)),
        )

    def _batches(self) -> Finding:
        rows: list[Any] = self._connection.execute(
            "SELECT b.id, b.status::text, b.total, count(t.id), count(t.id) FILTER (WHERE "
            "t.status < 'completed'),"
            " (SELECT count(*) FROM regente.events e WHERE e.batch_id = b.id AND e.event = "
            "'batch_completed'),"
            " (SELECT count(*) FROM regente.events e WHERE e.batch_id = b.id AND e.event = "
            "'batch_reopened')"
            " FROM regente.batches b LEFT JOIN regente.tasks t ON t.batch_id = b.id GROUP BY b.id"
        ).fetchall()
        faults = [
            (
                f"batch {batch_id}: {status}, total {total}, {counted} tasks, {live} live, "
                f"ended {ended} ×, reopened {reopened} ×"
            )
            for batch_id, status, total, counted, live, ended, reopened in rows
            if (status, live, ended) != ("completed", 0, reopened + 1) or total != counted
        ]
        return Finding(
            "I9 batches",
            f"{len(rows)} batches, {sum(row[2] for row in rows)} tasks in them",
            tuple(faults),
        )

    def _recovery(self) -> Finding:
        """I8: from a runner's death to the return of its last task, by the database's clock."""
        bound = LEASE_SECONDS + SWEEP_SECONDS
        faults, slowest, recovered_tasks = [], 0.0, 0
        for death in self._record.deaths:
            back = self._recovered_at(death)
            if not back:
                continue
            recovered_tasks += len(back)
            seconds = max(back) - death.at
            away = sum(
                max(0.0, min(max(back), end) - max(death.at, began))
                for began, end in self._record.outages
            )
            if away:
                away += RECONNECT_SECONDS
            else:
                slowest = max(slowest, seconds)
            if seconds > bound + away + STATEMENT_SECONDS:
                faults.append(
                    f"{death.kind} (pid {death.pid}): its tasks were back after {seconds:.2f} s"
                )
        detail = (
            f"{recovered_tasks} tasks of {len(self._record.deaths)} runners back, slowest "
            f"{slowest:.2f} s, bound {bound:.0f} s"
        )
        return Finding("I8 recovery within TTL + sweep", detail, tuple(faults))

    def _recovered_at(self, death: Death) -> list[float]:
        rows: list[Any] = self._connection.execute(
            "SELECT extract(epoch FROM e.at)::double precision FROM regente.events e"
            " WHERE e.details ->> 'reason' = 'runner_lost' AND e.runner_id = (SELECT r.id"
            " FROM regente.runners r WHERE r.pid = %s AND r.started_at <= to_timestamp(%s)"
            " ORDER BY r.started_at DESC LIMIT 1)",
            (death.pid, death.at),
        ).fetchall()
        return [at for (at,) in rows]


def task_and_step(key: str) -> tuple[int, str]:
    """What an idempotency key is for."""
    found = re.fullmatch(r"regente-[0-9a-f-]{36}-(\d+)-[0-9a-f]+-(\w+)", key)
    assert found is not None, key
    return int(found[1]), found[2]
