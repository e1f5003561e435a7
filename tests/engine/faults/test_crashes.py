"""Runners that die: their tasks are requeued, crashes are counted apart from failures, and tasks
that only ran beside the cause are not blamed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regente import Regente, Retry
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog.reaper import Reaper, ReaperResult
from tests.engine.conftest import OpenApp
from tests.engine.helpers import (
    Clock,
    Sql,
    SqlRunner,
    column,
    events_of,
    many,
    one,
    running,
    status_is,
    task_row,
    until,
)


@pytest.fixture(autouse=True)
def ran(registry: Registry) -> list[int]:
    found: list[int] = []

    @registry.pipeline("p", retry=Retry(max_attempts=2))
    async def run(task: Task) -> None:
        found.append(task.id)

    return found


async def reap(app: Regente) -> ReaperResult:
    return await Reaper(app.database, 60, 3, lambda _: None).run_once()


async def test_tasks_of_an_expired_lease_are_requeued(app: Regente, sql: Sql, clock: Clock) -> None:
    """S4, O14, I4: only after the lease has expired; the runner is lost, no try is charged."""
    sql_runner = SqlRunner.register(sql, ["p"], ttl_seconds=60)
    alive = SqlRunner.register(sql, ["p"])
    ids = await app.enqueue_many("p", [{}] * 3)
    assert sql_runner.claim(2) == ids[:2]
    clock.advance_beside(alive, seconds=55)
    assert await reap(app) == ReaperResult(0, 0, 0)
    clock.advance_beside(alive, seconds=10)
    assert await reap(app) == ReaperResult(1, 2, 0)
    assert await reap(app) == ReaperResult(0, 0, 0)
    for task_id in ids[:2]:
        row = task_row(sql, task_id)
        assert (row["status"], row["tries"], row["crashes"], row["error_code"]) == (
            "queued",
            0,
            1,
            "CRASHED",
        )
        assert events_of(sql, task_id) == ["task_queued", "task_claimed", "task_recovered"]
    assert [row["class"] for row in many(sql, "SELECT class FROM regente.failures")] == [
        "crash",
        "crash",
    ]
    found = await app.runner(sql_runner.id)
    assert found.status == "lost"


async def test_a_lost_runner_claims_nothing_and_changes_nothing(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """I3, F5: every write of a woken runner is refused."""
    sql_runner = SqlRunner.register(sql, ["p"])
    other = SqlRunner.register(sql, ["p"])
    task_id = await app.enqueue("p", {})
    sql_runner.claim()
    clock.advance_beside(other, seconds=120)
    assert sql_runner.claim() == [], "its lease has expired, although no reaper ran"
    await reap(app)
    assert other.claim() == [task_id]
    assert sql_runner.finish(task_id, attempt=1) == []
    assert sql_runner.finish(task_id, attempt=2) == [], "the right attempt, the wrong runner"
    assert other.finish(task_id, attempt=1) == [], "the right runner, an old attempt"
    assert other.finish(task_id, attempt=2) == [task_id]
    assert sql_runner.claim() == []


async def test_three_crashes_make_a_dead_letter(app: Regente, sql: Sql, ran: list[int]) -> None:
    """I7: a task that killed its runner three times is not run again."""
    task_id = await app.enqueue("p", {})
    for crash in range(1, 4):
        sql_runner = SqlRunner.register(sql, ["p"])
        assert (sql_runner.claim() if crash < 3 else sql_runner.claim_suspect()) == [task_id]
        sql_runner.expire_lease()
        await reap(app)
        assert task_row(sql, task_id)["crashes"] == crash
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"], row["error_code"]) == ("failed", 0, "CRASHED")
    assert "3 of 3" in row["error_message"]
    assert events_of(sql, task_id)[-1] == "task_failed"
    await app.run(until_idle=True)
    assert ran == []
    await app.retry(task_id)
    await app.run(until_idle=True)
    assert ran == [task_id]


async def test_neighbours_of_a_suspect_are_not_blamed(app: Regente, sql: Sql) -> None:
    """I7: a task that ran beside a suspect is requeued without a crash on its count."""
    suspect = await app.enqueue("p", {})
    sql.execute("UPDATE regente.tasks SET crashes = 2")
    sql_runner = SqlRunner.register(sql, ["p"])
    neighbours = await app.enqueue_many("p", [{}] * 5)
    assert sql_runner.claim(10) == neighbours, "an ordinary claim does not take suspects"
    assert sql_runner.claim_suspect() == [suspect]
    sql_runner.expire_lease()
    assert await reap(app) == ReaperResult(1, 5, 1)
    assert [task_row(sql, task_id)["crashes"] for task_id in neighbours] == [0] * 5
    assert task_row(sql, suspect)["status"] == "failed"


async def test_suspects_respect_the_concurrency_of_their_pipeline(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """S3, I7: a suspect waits while another task of a pipeline with one slot runs, and the other
    way round."""
    at_once: list[int] = []
    order: list[int] = []
    go_on = asyncio.Event()

    @registry.pipeline("alone", concurrency=1)
    async def alone(task: Task) -> None:
        order.append(task.id)
        at_once.append(len(order))
        await go_on.wait()
        order.remove(task.id)

    healthy = await app.enqueue("alone", {})
    async with running(app):
        await until(lambda: order == [healthy])
        ids = await app.enqueue_many("alone", [{}, {}, {}])
        sql.execute("UPDATE regente.tasks SET crashes = 2 WHERE id = ANY (%s)", [ids[:2]])
        beside = await app.enqueue("p", {})  # wakes the claim loop, and the suspects with it
        await status_is(app, beside, "completed")
        runner: Any = app._runner
        for _ in range(3):
            runner._suspects.set()
            await until(lambda: not runner._suspects.is_set())
        go_on.set()
        for task_id in (healthy, *ids):
            await status_is(app, task_id, "completed")
    assert set(at_once) == {1}


async def test_suspects_run_one_at_a_time_and_none_is_forgotten(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I7, I8: also while ordinary tasks fill the runner."""
    busy, most = 0, 0

    @registry.pipeline("q")
    async def run(task: Task) -> None:
        nonlocal busy, most
        if task.claim.crashes >= 2:
            busy += 1
            most = max(most, busy)
            await app.counts("q")  # time for another one to be claimed
            busy -= 1

    await app.enqueue_many("q", [{}] * 8)
    sql.execute("UPDATE regente.tasks SET crashes = 2")
    await app.enqueue_many("q", [{}] * 50)
    await app.run(["q"], until_idle=True, concurrency=10)
    assert (most, (await app.counts("q"))["completed"]) == (1, 58)
    alone = one(sql, "SELECT count(*) FROM regente.events WHERE details ->> 'alone' = 'true'")[
        "count"
    ]
    assert alone == 8


async def test_a_runner_declared_lost_registers_again(
    app: Regente, open_app: OpenApp, registry: Registry, sql: Sql
) -> None:
    """I3, I8: another runner gets the task; later writes of the first runner are refused."""
    started, go_on = asyncio.Event(), asyncio.Event()
    results: list[str] = []

    @registry.pipeline("slow")
    async def slow(task: Task) -> str:
        started.set()
        if task.attempt == 1:
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                await go_on.wait()
            results.append(await task.step("A", lambda: "zombie"))
        return f"attempt {task.attempt}"

    task_id = await app.enqueue("slow", {})
    other = await open_app()
    async with running(app, ["slow"]):
        await started.wait()
        sql.execute("UPDATE regente.runners SET lease_until = regente.clock() - interval '1 s'")
        async with running(other, ["slow"]):
            await status_is(app, task_id, "completed")
        go_on.set()
    row = task_row(sql, task_id)
    assert (row["result"], row["attempt"], row["crashes"], results) == ("attempt 2", 2, 1, [])


async def test_a_thousand_and_more_orphans_are_all_found(app: Regente, sql: Sql) -> None:
    """S4: a sweep repeats until no orphan is left."""
    sql_runner = SqlRunner.register(sql, ["p"])
    await app.enqueue_many("p", [{}] * 2_500)
    assert len(sql_runner.claim(2_500)) == 2_500
    sql_runner.expire_lease()
    assert await reap(app) == ReaperResult(1, 2_500, 0)


async def test_several_reapers_at_once_recover_each_task_once(
    app: Regente, open_app: OpenApp, sql: Sql
) -> None:
    """S4, I6: without a leader and without duplicates."""
    sql_runner = SqlRunner.register(sql, ["p"])
    await app.enqueue_many("p", [{}] * 500)
    sql_runner.claim(500)
    sql_runner.expire_lease()
    apps = [app, await open_app(), await open_app()]
    found = await asyncio.gather(*(reap(one_of) for one_of in apps))
    assert sum(reaped.requeued for reaped in found) == 500
    assert sum(reaped.lost_runners for reaped in found) == 1
    assert set(column(sql, "SELECT crashes FROM regente.tasks")) == {1}


async def test_stopping_hands_tasks_back_without_a_charge(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q12, I7: a deploy costs neither a try nor a crash; the report counts."""
    started = asyncio.Event()

    @registry.pipeline("slow")
    async def slow(task: Task) -> None:
        started.set()
        await asyncio.Event().wait()

    ids = await app.enqueue_many("slow", [{}] * 3)
    run = asyncio.create_task(app.run(["slow"]))
    await started.wait()
    await until(lambda: app._runner is not None and app._runner.running_count == 3)
    app.stop_running()
    app.stop_running()
    report = await run
    assert str(report).startswith("0 finished, 3 handed back, 0 lost")
    for task_id in ids:
        row = task_row(sql, task_id)
        assert (row["status"], row["tries"], row["crashes"]) == ("queued", 0, 0)
        assert events_of(sql, task_id)[-1] == "task_handed_back"


async def test_canceling_run_itself_hands_tasks_back(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q12: Ctrl-C in a user's program, or `task.cancel()`: no task stays running or is charged."""
    started, ended = asyncio.Event(), asyncio.Event()

    @registry.pipeline("slow")
    async def slow(task: Task) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task_id = await app.enqueue("slow", {})
    run = asyncio.create_task(app.run(["slow"]))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended.is_set(), "its code was told to stop"
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"], row["crashes"]) == ("queued", 0, 0)
