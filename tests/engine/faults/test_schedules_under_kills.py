"""Schedules while runners are killed and others sweep at the same moment: each time has one task,
and none is lost (Q4, F1)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from regente import Regente
from regente.engine.schedule_operations import Overlap
from regente.engine.watchdog.schedules import ScheduleSweep
from regente.settings import Settings
from tests.engine.faults import scheduled_pipelines as _registered  # noqa: F401 - the client must know the pipelines
from tests.support.audit import audit
from tests.support.eventually import eventually_async
from tests.support.runner_process import RunnerProcess

MODULE = "tests.engine.faults.scheduled_pipelines"
RUNNERS = 3
SWEEPERS = 4
KILLS = 4
EVERY_SECOND, YEARLY = "* * * * * *", "0 0 1 1 *"
# After each kill the runners fire so many times more, so that kills meet sweeps.
TIMES_BETWEEN_KILLS = 3
OVERLAPS: dict[str, Overlap] = {"beside": "allow", "after": "queue"}
RUNS = """
SELECT r.due_at, r.state, t.id, t.status::text,
       (SELECT e.id FROM regente.events e WHERE e.task_id = t.id AND e.event = 'task_queued'),
       (SELECT e.id FROM regente.events e WHERE e.task_id = t.id AND e.event = 'task_completed')
FROM regente.schedule_runs r LEFT JOIN regente.tasks t ON t.id = r.task_id
WHERE r.schedule = %s ORDER BY r.due_at"""

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def database_url(fresh_database: str) -> str:
    return fresh_database


async def test_no_time_is_lost_or_run_twice(database_url: str, settings: Settings) -> None:
    """Q4, F1, I5: under catch-up `all`, side by side and one after another."""
    dice = random.Random(7)
    environment = {"JOB_LOCK_TTL_MS": "3000"}

    def start() -> RunnerProcess:
        return RunnerProcess(database_url, MODULE, environment)

    async with Regente(database_url, settings=settings) as app:
        await schedule(app, EVERY_SECOND)
        runners = [await asyncio.to_thread(start) for _ in range(RUNNERS)]
        sweepers = [asyncio.create_task(sweep_on(app)) for _ in range(SWEEPERS)]
        try:
            for _ in range(KILLS):
                await after_more_times(app)
                await asyncio.sleep(dice.uniform(0.0, 1.0))
                position = dice.randrange(RUNNERS)
                await asyncio.to_thread(runners[position].close)
                runners[position] = await asyncio.to_thread(start)
            await after_more_times(app)
            await schedule(app, YEARLY)
            await eventually_async(lambda: all_ended(app), within_seconds=120)
        finally:
            for sweeper in sweepers:
                sweeper.cancel()
            for one in runners:
                await asyncio.to_thread(one.close)
    with psycopg.connect(database_url) as connection:
        for name in OVERLAPS:
            runs = connection.execute(RUNS, (name,)).fetchall()
            assert len(runs) >= KILLS * TIMES_BETWEEN_KILLS
            assert gaps([run[0] for run in runs]) == []
            assert {run[1] for run in runs} == {"queued"}
            assert {run[3] for run in runs} == {"completed"}
        assert len({run[2] for run in runs}) == len(runs)
        assert overlapping(runs) == []
        count = connection.execute(
            "SELECT count(*) = (SELECT count(*) FROM regente.schedule_runs) FROM regente.tasks"
        )
        assert count.fetchone() == (True,)
        assert audit(connection) == []


async def schedule(app: Regente, cron: str) -> None:
    for name, overlap in OVERLAPS.items():
        args = {"seconds": 0.3}
        await app.schedule(name, "scheduled.work", cron, args, overlap=overlap, catch_up="all")


async def sweep_on(app: Regente) -> None:
    """Without turns: at the same moment as the runners and the other sweepers."""
    while True:
        await ScheduleSweep(app.database, 1).run_once()
        await asyncio.sleep(0.02)


async def after_more_times(app: Regente) -> None:
    before = len(await app.schedule_runs("beside", limit=1000))

    async def more() -> bool:
        found = len(await app.schedule_runs("beside", limit=1000))
        return found >= before + TIMES_BETWEEN_KILLS

    await eventually_async(more, within_seconds=60)


async def all_ended(app: Regente) -> bool:
    waiting = sum(row["waiting"] for row in await app.schedules())
    counts = await app.counts()
    return waiting == 0 and counts["queued"] == counts["running"] == 0


def gaps(times: Sequence[datetime]) -> list[tuple[datetime, datetime]]:
    return [(one, other) for one, other in pairwise(times) if other - one != timedelta(seconds=1)]


def overlapping(runs: Sequence[Any]) -> list[Any]:
    """Runs that were queued before the one before had ended, by the numbers of their events, which
    are drawn in that order. A transaction's time is that of its beginning."""
    return [(one, other) for one, other in pairwise(runs) if other[4] < one[5]]
