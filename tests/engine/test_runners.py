"""What is known of each runner: status, counters and tasks; and many runners at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regente import Fatal, InvalidInput, Regente, Retry, Transient
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog.reaper import Reaper
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Sql, SqlRunner, column, many, one, running, until

DONE = "SELECT count(*) FROM regente.tasks WHERE status = 'completed'"


async def test_three_runners_and_a_hundred_tasks_make_a_hundred_completions(
    app: Regente, open_app: OpenApp, registry: Registry, sql: Sql
) -> None:
    """S8, O7, I2: exactly; the sink has no unique key."""
    sql.execute("CREATE TABLE public.sink (task_id bigint)")

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await connection.execute("INSERT INTO public.sink VALUES (%s)", [task.id])

    ids = await app.enqueue_many("p", [{}] * 100)
    apps = [app, await open_app(), await open_app()]
    await asyncio.gather(*(runner.run(until_idle=True, concurrency=5) for runner in apps))
    assert sorted(column(sql, "SELECT task_id FROM public.sink")) == ids
    assert (await app.counts("p"))["completed"] == 100
    assert (
        one(sql, "SELECT count(*) FROM regente.events WHERE event = 'task_completed'")["count"]
        == 100
    )
    shares = [runner.completed for runner in await app.runners(everyone=True)]
    assert (len(shares), sum(shares)) == (3, 100)


async def test_the_counters_of_a_runner(app: Regente, registry: Registry, sql: Sql) -> None:
    """S6: claimed, completed, failed, retried, recovered, average duration; final at its stop."""

    @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01))
    async def run(task: Task[dict[str, Any]]) -> None:
        if task.args["do"] == "fail":
            raise Fatal("no")
        if task.args["do"] == "retry" and task.attempt == 1:
            raise Transient("once")

    sql_runner = SqlRunner.register(sql, ["p"])
    await app.enqueue("p", {"do": "ok"})
    sql_runner.claim()
    sql_runner.expire_lease()
    await app.enqueue_many("p", [{"do": "ok"}] * 4 + [{"do": "fail"}] * 2 + [{"do": "retry"}] * 3)
    await app.run(until_idle=True, name="counter")
    (found,) = [runner for runner in await app.runners(everyone=True) if runner.name == "counter"]
    assert (found.claimed, found.completed, found.failed, found.retried) == (13, 8, 2, 3)
    assert (found.recovered, found.handed_back, found.status) == (1, 0, "stopped")
    assert found.average_seconds is not None
    assert 0 < found.average_seconds < 5
    assert (found.pipelines, found.alive, found.stopped_at is not None) == (["p"], False, True)


async def test_what_a_killed_runner_did_after_its_last_renewal_is_counted(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """S6: from its events, once, however many look after it; a dead letter of the reaper is not
    its work."""
    registry.declare("p")
    killed = SqlRunner.register(sql, ["p"])
    beside = SqlRunner.register(sql, ["p"])
    ids = await app.enqueue_many("p", [{}] * 5)
    killed.claim(4)
    for task_id in ids[:2]:
        killed.finish(task_id)
    sql.execute("UPDATE regente.tasks SET crashes = 2 WHERE id = %s", (ids[3],))
    beside.claim()
    beside.finish(ids[4])
    killed.expire_lease()
    for _ in range(2):
        await Reaper(app.database, 60, 3, lambda _: None).run_once()
    found = {runner.id: runner for runner in await app.runners(everyone=True)}
    counted = found[killed.id]
    assert (counted.status, counted.claimed, counted.completed, counted.failed) == ("lost", 4, 2, 0)
    assert (found[beside.id].claimed, found[beside.id].completed) == (0, 0)  # not renewed yet


async def test_a_runner_that_registers_again_counts_from_zero(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """S6: the sum over all registrations is what was done."""

    @registry.pipeline("p")
    async def run(_: Task) -> None: ...

    await app.enqueue_many("p", [{}] * 10)
    lives = "SELECT id FROM regente.runners WHERE status = 'running'"
    async with running(app):
        await until(lambda: one(sql, DONE)["count"] == 10)
        before = column(sql, lives)
        sql.execute("UPDATE regente.runners SET status = 'lost', stopped_at = regente.clock()")
        await until(lambda: column(sql, lives) not in ([], before), within_seconds=30)
        await app.enqueue_many("p", [{}] * 5)
        await until(lambda: one(sql, DONE)["count"] == 15)
    shares = {runner.id: runner.completed for runner in await app.runners(everyone=True)}
    assert shares.pop(before[0]) <= 10
    assert sum(shares.values()) == 5


@pytest.mark.parametrize("slots", [0, -1, 1.5, True])
async def test_a_runner_needs_slots(app: Regente, registry: Registry, slots: int) -> None:
    """F15: else it would wait for one for ever."""

    @registry.pipeline("p")
    async def run(_: Task) -> None: ...

    with pytest.raises(InvalidInput, match="concurrency of a runner"):
        await app.run(concurrency=slots)


async def test_timeouts_count_as_failed_or_retried(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """S6: an attempt that the runner itself ends is counted like any other."""

    @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01), timeout=0.2)
    async def run(task: Task) -> None:
        await asyncio.Event().wait()

    await app.enqueue("p", {}, batch="b")
    await app.run(until_idle=True, name="counter")
    (found,) = await app.runners(everyone=True)
    assert (found.claimed, found.retried, found.failed) == (2, 1, 1)
    assert (await app.batch("b")).status == "completed"


async def test_owner_and_lease_of_each_task_are_shown(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """S1, Q1: owner, locked at, expiry, heartbeat, start of processing: in SQL and in the API."""
    started = asyncio.Event()

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await task.progress(0.5, "HALF")
        started.set()
        await asyncio.Event().wait()

    task_id = await app.enqueue("p", {})
    async with running(app, name="owner"):
        await started.wait()
        lock = one(sql, "SELECT *, lock_expires_at - locked_at AS ttl FROM regente.locks")
        info = await app.get(task_id)
        (runner,) = await app.runners()
    assert (lock["task_id"], lock["locked_by"], lock["attempt"], lock["checkpoint"]) == (
        task_id,
        "owner",
        1,
        "HALF",
    )
    assert lock["locked_at"] <= lock["last_heartbeat_at"] <= lock["lock_expires_at"]
    assert lock["processing_started_at"] == lock["locked_at"]
    assert 50 < lock["ttl"].total_seconds() <= 61
    assert (info.runner, info.runner_id, info.lease_until) == (
        "owner",
        lock["runner_id"],
        lock["lock_expires_at"],
    )
    assert (runner.running, runner.stuck, runner.alive, runner.status) == (1, 0, True, "running")
    assert many(sql, "SELECT * FROM regente.locks") == []


async def test_stuck_tasks_are_counted_per_runner(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """S6, Q9."""

    @registry.pipeline("p", stall_after=60)
    async def run(task: Task) -> None:
        return None

    await app.run(until_idle=True)
    sql_runner = SqlRunner.register(sql, ["p"])
    await app.enqueue_many("p", [{}] * 3)
    sql_runner.claim(3)
    sql.execute(
        "UPDATE regente.tasks SET heartbeat_at = regente.clock() - interval '2 minutes' "
        "WHERE id <= 2"
    )
    (found,) = await app.runners()
    assert (found.running, found.stuck) == (3, 2)


async def test_every_start_is_a_new_runner(app: Regente, registry: Registry) -> None:
    """I3: the id is never reused, also for the same name."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        return None

    for _ in range(3):
        await app.run(until_idle=True, name="same")
    found = await app.runners(everyone=True)
    assert len({runner.id for runner in found}) == 3
    assert {runner.name for runner in found} == {"same"}


async def test_a_pool_of_one_connection_is_enough(
    database_url: str, registry: Registry, sql: Sql
) -> None:
    """I10, F11: slow, without a deadlock."""
    from regente.settings import Settings

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        async with task.transaction("A") as connection:
            await connection.execute("SELECT 1")
            await task.progress(0.5)
        await task.step("B", lambda: 1)

    settings = Settings(sweep_seconds=0.2, database_pool_size=1)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        await app.enqueue_many("p", [{}] * 20)
        async with running(app):
            await until(
                lambda: (
                    one(sql, "SELECT count(*) FROM regente.tasks WHERE status = 'completed'")[
                        "count"
                    ]
                    == 20
                )
            )
