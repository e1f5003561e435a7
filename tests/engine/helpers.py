"""Helpers of the engine's tests: runners as asyncio tasks or driven by SQL, a movable clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import DictRow

from regente import Regente
from regente.engine.counters import DrainReport
from regente.engine.database import number_array, text_array
from regente.engine.outcome import Completed, Ended
from regente.engine.priority_levels import BEGINNING, LevelRequest, rank_of
from regente.engine.queries import query
from regente.engine.task import Task
from regente.engine.task_store import (
    Claim,
    Completion,
    Settlement,
    StepRecord,
    TaskStore,
    claim_params,
)
from tests.support.eventually import TIMEOUT_SECONDS, eventually_async

Sql = psycopg.Connection[DictRow]

Write = Callable[[TaskStore, Claim], Awaitable[bool]]

WRITES: dict[str, Write] = {
    "completion": lambda store, claim: store.finished.write(
        Completion(claim, Completed(None), None)
    ),
    "settlement": lambda store, claim: store.settled.write(
        Settlement(claim, Ended("queued", "task_handed_back"))
    ),
    "step": lambda store, claim: store.marked.write(StepRecord(claim, "A")),
    "event": lambda store, claim: store.add_event(claim, "event:told", "told", "{}"),
}
"""All that an attempt writes about its task; true when the fence let it pass."""


@contextlib.asynccontextmanager
async def running(
    app: Regente, pipelines: list[str] | None = None, **options: Any
) -> AsyncIterator[asyncio.Task[DrainReport]]:
    """Runs the app as a runner within the block; at its end running tasks are handed back."""
    run = asyncio.create_task(app.run(pipelines, **options))
    try:
        yield run
    finally:
        app.stop_running()
        app.stop_running()
        await run


async def status_is(
    app: Regente, task_id: int, *statuses: str, within_seconds: float = TIMEOUT_SECONDS
) -> str:
    """Wait until the task has one of these states."""

    async def reached() -> str | None:
        status = (await app.get(task_id)).status
        return status if status in statuses else None

    found = await eventually_async(reached, within_seconds=within_seconds)
    assert found is not None
    return found


def falls_silent(task: Task[Any]) -> None:
    """When the caller waits, in a coroutine or a thread, the task has shown no progress for an
    hour. Stall times of tests are minutes: what is healthy does not stall on a busy machine."""
    assert task._store.loop is not None
    task._store.loop.call_soon_threadsafe(_be_silent, task)


def _be_silent(task: Task[Any]) -> None:
    task._beat_at -= 3600


async def until(predicate: Callable[[], object], within_seconds: float = TIMEOUT_SECONDS) -> None:
    async def holds() -> bool:
        return bool(predicate())

    await eventually_async(holds, within_seconds=within_seconds)


def one(sql: Sql, statement: str, *params: Any) -> dict[str, Any]:
    row = sql.execute(statement, params).fetchone()
    assert row is not None, statement
    return row


def many(sql: Sql, statement: str, *params: Any) -> list[dict[str, Any]]:
    return sql.execute(statement, params).fetchall()


def column(sql: Sql, statement: str, *params: Any) -> list[Any]:
    return [next(iter(row.values())) for row in sql.execute(statement, params).fetchall()]


def task_row(sql: Sql, task_id: int) -> dict[str, Any]:
    return one(sql, "SELECT * FROM regente.tasks WHERE id = %s", task_id)


def events_of(sql: Sql, task_id: int) -> list[str]:
    return column(
        sql, "SELECT event FROM regente.events WHERE task_id = %s ORDER BY txid, id", task_id
    )


async def claims_of(store: TaskStore, pipeline: str, count: int) -> list[Claim]:
    return sorted(await store.claim(levels_of_priority_0([pipeline], count), count))


COUNTERS = (
    "claimed",
    "completed",
    "failed",
    "retried",
    "recovered",
    "handed_back",
    "busy_seconds",
)


class Clock:
    """The database's clock. Moving it moves leases, backoffs, stalls and schedules at once."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._ahead_seconds = 0.0

    def advance(
        self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        self._ahead_seconds += seconds + 60 * minutes + 3600 * hours + 86_400 * days
        self._replace(f"SELECT now() + interval '{self._ahead_seconds} seconds'")

    def advance_beside(self, alive: SqlRunner, *, seconds: int) -> None:
        """Moves on while this runner renews its lease, so that it is no outage for the others."""
        for step in [10] * (seconds // 10) + [seconds % 10]:
            self.advance(seconds=step)
            assert alive.renew() == [alive.id]

    def stop_at(self, moment: str) -> None:
        """Stops the clock at this time."""
        self._replace(f"SELECT timestamptz '{moment}'")

    def _replace(self, body: str) -> None:
        self._sql.execute(
            "CREATE OR REPLACE FUNCTION regente.clock() RETURNS timestamptz LANGUAGE sql "
            "STABLE PARALLEL SAFE "
            f"AS $clock${body}$clock$"
        )


@dataclass
class SqlRunner:
    """A runner driven by the test: a row in the database and the engine's own statements."""

    connection: psycopg.Connection[Any]
    id: int
    pipelines: list[str]

    @classmethod
    def register(
        cls, connection: psycopg.Connection[Any], pipelines: list[str], ttl_seconds: float = 60.0
    ) -> SqlRunner:
        params = {
            "name": "sql-runner",
            "host": "nowhere",
            "pid": 1,
            "version": "0",
            "versions": "{}",
            "pipelines": text_array(pipelines),
            "concurrency": 1000,
            "connections": None,
            "ttl_seconds": ttl_seconds,
        }
        row = connection.execute(query("register_runner"), params).fetchone()
        assert row is not None
        return cls(connection, _first(row), pipelines)

    def claim(self, count: int = 1) -> list[int]:
        """Claim up to `count` tasks of priority 0; their ids."""
        params = claim_one_level(self.id, self.pipelines, count)
        return [_first(row) for row in self.connection.execute(query("claim"), params).fetchall()]

    def claim_suspect(self) -> list[int]:
        params = {"runner_id": self.id, "pipelines": text_array(self.pipelines)}
        return [
            _first(row)
            for row in self.connection.execute(query("claim_suspect"), params).fetchall()
        ]

    def finish(self, task_id: int, attempt: int = 1, result: str | None = None) -> list[int]:
        return run_query(
            self.connection, "finish", finish_params(self.id, task_id, attempt, result)
        )

    def renew(self) -> list[int]:
        counters = dict.fromkeys(COUNTERS, 0)
        params = {"runner_id": self.id, "ttl_seconds": 60.0, **counters}
        return run_query(self.connection, "renew_lease", params)

    def expire_lease(self) -> None:
        """Moves the end of its lease into the past; the reaper has not run yet."""
        self.connection.execute(
            "UPDATE regente.runners SET lease_until = regente.clock() - interval '1 "
            "second' WHERE id = %s",
            (self.id,),
        )


def claim_one_level(runner_id: int, pipelines: list[str], count: int) -> dict[str, Any]:
    levels = levels_of_priority_0(pipelines, count)
    return {"runner_id": runner_id, **claim_params(levels), "free": count}


def levels_of_priority_0(pipelines: list[str], count: int) -> list[LevelRequest]:
    """Of returned and of new tasks."""
    ranks = (rank_of(0, 1), rank_of(0, 0))
    return [
        LevelRequest(pipeline, rank, BEGINNING, count) for pipeline in pipelines for rank in ranks
    ]


def finish_params(
    runner_id: int, task_id: int, attempt: int = 1, result: str | None = None
) -> dict[str, Any]:
    return {
        "runner_id": runner_id,
        "ids": number_array([task_id]),
        "attempts": number_array([attempt]),
        "results": text_array([result]),
    }


def step_params(runner_id: int, task_id: int, step: str, attempt: int = 1) -> dict[str, Any]:
    return {
        "runner_id": runner_id,
        "ids": number_array([task_id]),
        "attempts": number_array([attempt]),
        "checkpoints": text_array([step]),
        "progress": number_array([None]),
        "task_ids": number_array([task_id]),
        "names": text_array([step]),
        "items": number_array([-1]),
        "outputs": text_array(["1"]),
        "durations_ms": number_array([1]),
        "calls": text_array([None]),
        "within": "5s",
    }


REAP = {"limit": 1000, "max_crashes": 3}


def run_query(
    connection: psycopg.Connection[Any], name: str, params: dict[str, Any] | None = None
) -> list[Any]:
    """The first column of what a named statement of the engine returns."""
    return [_first(row) for row in connection.execute(query(name), params or {}).fetchall()]


def _first(row: Any) -> Any:
    return next(iter(row.values())) if isinstance(row, dict) else row[0]
