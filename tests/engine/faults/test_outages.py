"""The database is away for all runners for longer than the lease: no task is charged a crash."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from regente import Regente
from regente.engine import database as database_module
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog.reaper import Reaper
from regente.settings import Settings
from tests.engine.helpers import (
    Clock,
    Sql,
    SqlRunner,
    column,
    one,
    run_query,
    running,
    task_row,
    until,
)
from tests.support.tcp_proxy import TcpProxy, proxy_before

OUTAGES = 3
RUNNERS = 3
TASKS = 30
SETTINGS = Settings(sweep_seconds=0.2, lock_ttl_ms=2_000, heartbeat_interval_ms=200)


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[TcpProxy]:
    async with proxy_before(database_url) as found:
        yield found


async def outage(proxy: TcpProxy, sql: Sql) -> None:
    """Takes the database away until every lease is over, and brings it back."""
    proxy.take_away()
    over = "SELECT bool_and(lease_until < now() - interval '0.3 s') FROM regente.runners"
    await until(lambda: one(sql, over + " WHERE status < 'stopped'")["bool_and"])
    proxy.bring_back()


async def test_an_outage_longer_than_the_lease_charges_no_task(
    proxy: TcpProxy, sql: Sql, registry: Registry
) -> None:
    """F4, I7: the first runner that is back does not declare the others dead."""
    gate = asyncio.Event()
    waiting: set[int] = set()

    @registry.pipeline("p", stall_after=None)
    async def run(task: Task) -> None:
        waiting.add(task.id)
        try:
            await gate.wait()
        finally:
            waiting.discard(task.id)

    async with contextlib.AsyncExitStack() as stack:
        apps = [
            await stack.enter_async_context(
                Regente(proxy.url, settings=SETTINGS, pipelines=registry)
            )
            for _ in range(RUNNERS)
        ]
        ids = await apps[0].enqueue_many("p", [{}] * TASKS)
        for app in apps:
            await stack.enter_async_context(running(app, concurrency=TASKS // RUNNERS))
        for _ in range(OUTAGES):
            await until(lambda: len(waiting) == TASKS)
            await outage(proxy, sql)
            await until(lambda: len(waiting) < TASKS)
        gate.set()
        done = "SELECT count(*) FROM regente.tasks WHERE status = 'completed'"
        await until(lambda: one(sql, done)["count"] == TASKS)
    rows = column(sql, "SELECT (tries, crashes)::text FROM regente.tasks WHERE id = ANY (%s)", ids)
    assert set(rows) == {"(0,0)"}
    assert column(sql, "SELECT id FROM regente.failures") == []


async def test_work_goes_on_within_seconds_after_an_outage(
    proxy: TcpProxy, sql: Sql, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4, I8: also when the pools have tried to connect for as long as in 40 seconds. At most 3 s
    are added to what a connection and a task take on this machine."""
    gate = asyncio.Event()

    @registry.pipeline("p", stall_after=None)
    async def run(task: Task) -> None:
        await gate.wait()

    monkeypatch.setattr(database_module, "RECONNECT_SECONDS", 0.1)  # ten times as many attempts
    async with Regente(proxy.url, settings=SETTINGS, pipelines=registry) as app:
        task_id = await app.enqueue("p", {})
        async with running(app):
            await until(lambda: task_row(sql, task_id)["status"] == "running")
            proxy.take_away()
            gate.set()
            await until(lambda: proxy.refused > 40)
            back_at = time.monotonic()
            proxy.bring_back()
            await until(lambda: task_row(sql, task_id)["status"] == "completed")
            took_seconds = time.monotonic() - back_at
    assert took_seconds < 3 + await seconds_of_a_task(proxy.url, registry)


async def seconds_of_a_task(url: str, registry: Registry) -> float:
    """For a new runner and a task that ends at once."""
    began_at = time.monotonic()
    async with Regente(url, settings=SETTINGS, pipelines=registry) as app:
        await app.enqueue("p", {})
        await app.run(until_idle=True)
    return time.monotonic() - began_at


# What the reaper takes for an outage.


@pytest.fixture
def reaper(app: Regente) -> Reaper:
    return Reaper(app.database, 60, 3, lambda _: None)


def lost_runners(sql: Sql) -> list[int]:
    return column(sql, "SELECT id FROM regente.runners WHERE status = 'lost' ORDER BY id")


def task_of(sql: Sql, runner: SqlRunner) -> int:
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    (task_id,) = runner.claim()
    return task_id


async def test_runners_that_could_not_renew_get_another_half_minute(
    sql: Sql, clock: Clock, reaper: Reaper
) -> None:
    """F4, I7, I8: and what is still silent then is lost, with its tasks."""
    runners = [SqlRunner.register(sql, ["p"]) for _ in range(2)]
    task_id = task_of(sql, runners[0])
    clock.advance(seconds=100)
    assert (await reaper.run_once()).lost_runners == 0
    clock.advance_beside(runners[1], seconds=25)
    assert (await reaper.run_once()).lost_runners == 0
    clock.advance_beside(runners[1], seconds=20)
    assert (await reaper.run_once()).lost_runners == 1
    assert lost_runners(sql) == [runners[0].id]
    assert task_row(sql, task_id)["crashes"] == 1
    events = "SELECT runner_id FROM regente.events WHERE event = 'runner_spared'"
    assert sorted(column(sql, events)) == sorted(runner.id for runner in runners)


@pytest.mark.parametrize("first", ["register", "renew"])
async def test_the_first_runner_that_is_back_speaks_for_all(
    sql: Sql, clock: Clock, reaper: Reaper, first: str
) -> None:
    """F4, I7: it renews or registers, and after that its reaper knows of no outage."""
    runners = [SqlRunner.register(sql, ["p"]) for _ in range(2)]
    task_of(sql, runners[0])
    clock.advance(seconds=100)
    if first == "register":
        SqlRunner.register(sql, ["p"])
    else:
        runners[1].renew()
    assert (await reaper.run_once()).lost_runners == 0
    assert lost_runners(sql) == []


async def test_a_runner_that_died_beside_living_ones_is_lost_at_once(
    sql: Sql, clock: Clock, reaper: Reaper
) -> None:
    """I8: another runner renewed in the meantime, so the database was there."""
    dead, alive = (SqlRunner.register(sql, ["p"]) for _ in range(2))
    clock.advance_beside(alive, seconds=70)
    assert (await reaper.run_once()).lost_runners == 1
    assert lost_runners(sql) == [dead.id]


async def test_silence_is_forgiven_twice_at_most(sql: Sql, clock: Clock, reaper: Reaper) -> None:
    """I8: without any living runner the tasks are not held for ever."""
    SqlRunner.register(sql, ["p"])
    for lost in (0, 0, 1):
        clock.advance(seconds=100)
        assert (await reaper.run_once()).lost_runners == lost


async def test_a_renewal_makes_up_for_what_was_forgiven(
    sql: Sql, clock: Clock, reaper: Reaper
) -> None:
    """F4, I7: each outage counts anew."""
    runners = [SqlRunner.register(sql, ["p"]) for _ in range(2)]
    for _ in range(4):
        clock.advance(seconds=100)
        assert (await reaper.run_once()).lost_runners == 0
        for runner in runners:
            runner.renew()


async def test_two_reapers_forgive_once(
    app: Regente, sql: Sql, holder: Sql, clock: Clock, reaper: Reaper
) -> None:
    """F4: the winner holds the rows; the loser steps over them."""
    SqlRunner.register(sql, ["p"])
    clock.advance(seconds=100)
    assert run_query(holder, "mark_lost_runners") == []
    assert (await reaper.run_once()).lost_runners == 0
    holder.commit()
    assert (await reaper.run_once()).lost_runners == 0
    assert column(sql, "SELECT amnesties FROM regente.runners") == [1]


async def test_tasks_of_forgiven_runners_do_not_stall(
    app: Regente, registry: Registry, sql: Sql, clock: Clock, reaper: Reaper
) -> None:
    """F4, I7: no task could show progress either."""

    @registry.pipeline("p", stall_after=20)
    async def run(task: Task) -> None:
        return None

    await app.run(until_idle=True)
    task_id = task_of(sql, SqlRunner.register(sql, ["p"]))
    clock.advance(seconds=100)
    await reaper.run_once()
    assert run_query(sql, "release_stalled", {"limit": 10}) == []
    assert task_row(sql, task_id)["tries"] == 0
