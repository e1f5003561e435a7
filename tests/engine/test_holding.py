"""Held tasks, which wait until they are released, and endless tasks that move between runners."""

from __future__ import annotations

import asyncio

import pytest

from regente import Regente, Transient
from regente.engine.errors import LeaseLost
from regente.engine.holding import HELD
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog.reaper import Reaper
from regente.settings import Settings
from tests.engine.helpers import (
    Sql,
    SqlRunner,
    column,
    events_of,
    running,
    status_is,
    task_row,
    until,
)
from tests.support.eventually import TIMEOUT_SECONDS


async def test_a_task_queued_as_held_runs_when_it_is_released(
    app: Regente, registry: Registry
) -> None:
    ran: list[int] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        ran.append(task.id)

    held, due = await app.enqueue("p", run_at=HELD), await app.enqueue("p")
    assert (await app.why(held)).code == "HELD"
    async with running(app):
        await status_is(app, due, "completed")
        assert ran == [due]
        assert await app.release([held, due]) == [held]
        await status_is(app, held, "completed")


async def test_a_task_holds_itself_and_keeps_its_steps(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """The error that is the reason is recorded as a failure and not charged."""
    looked: list[int] = []

    async def look() -> int:
        looked.append(1)
        return len(looked)

    @registry.pipeline("p")
    async def run(task: Task) -> int:
        seen = await task.step("LOOK", look)
        if task.attempt == 1:
            task.hold("it waits for a worker", Transient("the last one broke", code="BROKE"))
        return seen

    task_id = await app.enqueue("p")
    async with running(app):
        await until(lambda: "task_held" in events_of(sql, task_id))
        row = task_row(sql, task_id)
        assert (row["status"], row["tries"], row["error_code"]) == ("queued", 0, "BROKE")
        await app.release([task_id])
        await status_is(app, task_id, "completed")
    assert looked == [1]
    assert [failure["code"] for failure in await app.failures(task_id)] == ["BROKE"]


async def test_an_unnamed_transaction_runs_on_every_attempt_behind_the_fence(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I3: it is not recorded as a step."""
    sql.execute("CREATE TABLE notes (task bigint)")

    async def note_while_taken_over(task: Task) -> None:
        async with task.transaction() as connection:
            await connection.execute("INSERT INTO notes VALUES (%s)", [task.id])
            await task.event("noted", connection=connection)
            sql.execute("UPDATE regente.tasks SET attempt = attempt + 1 WHERE id = %s", [task.id])

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        for _ in range(2):
            async with task.transaction() as connection:
                await connection.execute("INSERT INTO notes VALUES (%s)", [task.id])
                await task.event("noted", connection=connection, name="a field called name")
        with pytest.raises(LeaseLost):
            await note_while_taken_over(task)
        sql.execute("UPDATE regente.tasks SET attempt = attempt - 1 WHERE id = %s", [task.id])

    task_id = await app.enqueue("p")
    await app.run(until_idle=True)
    assert column(sql, "SELECT count(*) FROM notes") == [2]
    assert events_of(sql, task_id).count("noted") == 2


async def test_an_endless_task_is_handed_on_at_once_when_its_runner_drains(
    database_url: str, registry: Registry
) -> None:
    """O13: a drain does not wait for it; it sees the reason and has its grace to clean up."""
    at_work, cleaned, reasons = asyncio.Event(), asyncio.Event(), []

    @registry.pipeline("p", endless=True, grace=5.0)
    async def run(task: Task) -> None:
        at_work.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            reasons.append(task.stopping)
            await cleaned.wait()
            raise

    settings = Settings(sweep_seconds=0.2, drain_seconds=10 * TIMEOUT_SECONDS)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        task_id = await app.enqueue("p")
        serving = asyncio.create_task(app.run())
        await until(at_work.is_set)
        app.stop_running()
        await until(lambda: reasons)
        cleaned.set()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            report = await serving
        assert (report.handed_back, reasons) == (1, ["drain"])
        assert (await app.get(task_id)).status == "queued"


async def test_an_endless_task_is_not_charged_for_a_lost_runner(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I7 is for tasks that may have killed their runner."""

    @registry.pipeline("p", endless=True)
    async def run(task: Task) -> None:
        return None

    await app.run(until_idle=True)  # tells the database what is known of the pipeline
    task_id = await app.enqueue("p")
    reaper = Reaper(app.database, 60.0, 3, lambda count: None)
    for _ in range(5):
        sql_runner = SqlRunner.register(sql, ["p"])
        assert sql_runner.claim() == [task_id]
        sql_runner.expire_lease()
        await reaper.run_once()
    row = task_row(sql, task_id)
    assert (row["status"], row["crashes"]) == ("queued", 0)


async def test_a_declared_pipeline_is_queued_without_its_code(
    app: Regente, registry: Registry
) -> None:
    registry.declare("elsewhere")
    task_id = await app.enqueue("elsewhere", {"a": 1})
    assert (await app.get(task_id)).status == "queued"
