"""Clocks that are wrong by ten minutes (F9): only the database's clock counts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from regente import Regente
from regente.settings import Settings
from tests.engine.faults import skewed_pipelines as _registered  # noqa: F401 - for the client
from tests.engine.faults.skewed_pipelines import WAIT_SECONDS
from tests.engine.helpers import Clock, Sql, column, many, one
from tests.support.audit import audit
from tests.support.eventually import eventually, eventually_async
from tests.support.runner_process import RunnerProcess
from tests.support.running import runner_in
from tests.support.skewed_clock import skewed_environment

SKEWS_MINUTES = (10.0, -10.0)
WAITING = ("skew.retried", "skew.throttled", "skew.asleep")
MODULE = "tests.engine.faults.skewed_pipelines"
CONFIG = {"JOB_LOCK_TTL_MS": "3000", "JOB_HEARTBEAT_INTERVAL_MS": "300"}
# With the schedule's task, which comes by itself.
OPEN = """
SELECT count(*) FILTER (WHERE status < 'completed')::int
       + (SELECT count(*) FROM regente.schedules WHERE last_at IS NULL)::int AS count
FROM regente.tasks
"""
# How long each task was queued between two attempts.
PAUSES = """
SELECT extract(epoch FROM claimed.at - ended.at)::double precision
FROM regente.events ended
JOIN regente.events claimed ON claimed.task_id = ended.task_id AND claimed.event = 'task_claimed'
                           AND claimed.attempt = ended.attempt + 1
WHERE ended.event IN ('task_retried', 'task_throttled', 'task_sleeping')
"""
GRAIN_SECONDS = 0.05  # an event's time is the start of its transaction


@pytest.fixture
def database_url(fresh_database: str) -> str:
    return fresh_database  # a killed runner may keep its connections for a while


@pytest.fixture
def skewed_runners(database_url: str) -> Iterator[list[RunnerProcess]]:
    """One runner ten minutes ahead of the database, one ten minutes behind it."""
    with contextlib.ExitStack() as stack:
        runners = []
        for minutes in SKEWS_MINUTES:
            environment = skewed_environment(minutes)
            if environment is None:
                pytest.skip(
                    "libfaketime is not installed, and only root on Debian can install it here; "
                    "the other test of this file moves the database's clock instead"
                )
            runner = RunnerProcess(database_url, MODULE, {**CONFIG, **environment})
            runners.append(stack.enter_context(runner))
        yield runners


async def test_runners_with_wrong_clocks_keep_their_leases_and_every_interval(
    skewed_runners: list[RunnerProcess], database_url: str, sql: Sql
) -> None:
    """F9, I1, I4, I6, I8: and one takes over from the other when that dies, no sooner."""
    async with Regente(database_url) as app:
        await asyncio.to_thread(eventually, lambda: len(alive(sql)) == 2)
        await eventually_async(lambda: both_clocks_were_seen(app, sql))
        await enqueue_everything(app, sql)
        long_task = await app.enqueue("skew.long", {})
        await asyncio.to_thread(eventually, lambda: one(sql, OPEN)["count"] == 1)
        assert column(sql, "SELECT id FROM regente.runners WHERE status = 'lost'") == []
        victim = next(runner for runner in skewed_runners if runner.pid == pid_of(sql, long_task))
        victim.kill()
        await asyncio.to_thread(eventually, lambda: one(sql, OPEN)["count"] == 0)
    assert column(sql, "SELECT pid FROM regente.runners WHERE status = 'lost'") == [victim.pid]
    check_times(sql, database_url)


@pytest.mark.parametrize("minutes", SKEWS_MINUTES)
async def test_a_database_with_a_wrong_clock_changes_nothing(
    minutes: float, database_url: str, settings: Settings, sql: Sql, clock: Clock
) -> None:
    """F9, I1, I6, I8: for every process the difference is the same as with a wrong clock."""
    clock.advance(minutes=minutes)
    async with Regente(database_url, settings=settings) as app:
        await enqueue_everything(app, sql)
        async with runner_in(app):
            await asyncio.to_thread(eventually, lambda: one(sql, OPEN)["count"] == 0)
    check_times(sql, database_url)


async def enqueue_everything(app: Regente, sql: Sql) -> None:
    """Tasks that wait, and a schedule that is due."""
    for pipeline in WAITING:
        await app.enqueue_many(pipeline, [{}] * 10, batch=pipeline)
    await app.schedule("tick", "skew.clock", "* * * * *")
    sql.execute("UPDATE regente.schedules SET next_at = regente.clock()")


async def both_clocks_were_seen(app: Regente, sql: Sql) -> bool:
    """Whether both runners have told a task their time; otherwise there is one more such task."""
    ahead = column(
        sql,
        "SELECT round((result::text::double precision - extract(epoch FROM finished_at)) / 60)::int"
        " FROM regente.tasks WHERE pipeline = 'skew.clock' AND status = 'completed'",
    )
    assert set(ahead) <= {10, -10}
    await app.enqueue("skew.clock", {})
    return set(ahead) == {10, -10}


def check_times(sql: Sql, database_url: str) -> None:
    pauses: list[float] = column(sql, PAUSES)
    assert len(pauses) == 10 * len(WAITING)
    assert min(pauses) >= WAIT_SECONDS - GRAIN_SECONDS
    (schedule,) = many(sql, "SELECT next_at - regente.clock() AS ahead FROM regente.schedules")
    assert -1 <= schedule["ahead"].total_seconds() <= 60
    assert set(column(sql, "SELECT tries FROM regente.tasks WHERE pipeline <> 'skew.retried'")) == {
        0
    }
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert audit(connection) == []


def alive(sql: Sql) -> list[dict[str, Any]]:
    return many(
        sql,
        "SELECT pid FROM regente.runners WHERE status = 'running' AND lease_until > "
        "regente.clock()",
    )


def pid_of(sql: Sql, task_id: int) -> int | None:
    """The process that runs the task."""
    found: list[int] = column(
        sql,
        "SELECT r.pid FROM regente.tasks t JOIN regente.runners r ON r.id = t.runner_id "
        f"WHERE t.id = {task_id}",
    )
    return found[0] if found else None
