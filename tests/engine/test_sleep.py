"""Durable sleep: the slot is freed, the database's clock counts, and any runner continues."""

from __future__ import annotations

from regente import Regente, Retry
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Clock, Sql, column, events_of, one, running, task_row, until


async def test_a_sleeping_task_frees_its_slot_and_continues_on_another_runner(
    app: Regente, open_app: OpenApp, registry: Registry, sql: Sql, clock: Clock
) -> None:
    """Q12: two sleeps of an hour, a runner each; no step is repeated and no try charged."""
    log: list[str] = []

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> str:
        await task.step("A", lambda: log.append("A"))
        await task.sleep(3600)
        log.append("woke")
        await task.sleep(3600)
        await task.sleep(0)
        return "done"

    @registry.pipeline("other")
    async def other(task: Task) -> None:
        log.append("other")

    task_id = await app.enqueue("p", {})
    async with running(app, concurrency=1):
        await until(lambda: task_row(sql, task_id)["status"] == "queued" and log == ["A"])
        await app.enqueue("other", {})
        await until(lambda: log == ["A", "other"])
    waits = one(
        sql,
        "SELECT extract(epoch FROM run_at - regente.clock())::float AS s FROM "
        "regente.tasks WHERE id = %s",
        task_id,
    )
    assert 3590 < waits["s"] <= 3600
    clock.advance(minutes=61)
    async with running(await open_app()):
        await until(lambda: log == ["A", "other", "woke"])
        await until(lambda: task_row(sql, task_id)["status"] == "queued")
    clock.advance(minutes=61)
    await (await open_app()).run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["result"], row["attempt"], row["tries"]) == (
        "completed",
        "done",
        3,
        0,
    )
    assert log == ["A", "other", "woke", "woke"]
    assert events_of(sql, task_id).count("task_sleeping") == 2
    assert column(sql, "SELECT name FROM regente.steps ORDER BY name") == ["A", "sleep", "sleep#2"]


async def test_except_exception_does_not_catch_a_sleep(
    app: Regente, registry: Registry, sql: Sql, clock: Clock
) -> None:
    """The signal of a sleep is no `Exception`."""
    swallowed: list[Exception] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        try:
            await task.sleep(60)
        except Exception as error:
            swallowed.append(error)

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(lambda: events_of(sql, task_id)[-1] == "task_sleeping")
    assert swallowed == []
    assert (await app.why(task_id)).code == "WAITING"
    clock.advance(seconds=61)
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["status"] == "completed"


async def test_a_sleep_inside_a_loop_suspends_the_whole_task(
    app: Regente, registry: Registry, sql: Sql, clock: Clock
) -> None:
    """Also through `each`, whose finished items stay finished."""
    calls: list[int] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        async def work(number: int) -> None:
            calls.append(number)
            if number == 1:
                await task.sleep(60)

        await task.each("WORK", [0, 1, 2], work)

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(lambda: events_of(sql, task_id)[-1] == "task_sleeping")
    clock.advance(seconds=61)
    await app.run(until_idle=True)
    assert (task_row(sql, task_id)["status"], calls) == ("completed", [0, 1, 1, 2])
