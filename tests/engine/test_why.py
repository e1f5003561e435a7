""" "Why is it not running?": one answer in every situation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from regente import Fatal, Regente, Retry, Throttled, Transient
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Clock, Sql, SqlRunner, running, status_is, task_row, until


@pytest.fixture(autouse=True)
def pipelines(registry: Registry) -> None:
    @registry.pipeline("p", retry=Retry(first=3600), stall_after=60)
    async def run(task: Task[dict[str, Any]]) -> None:
        match task.args.get("do"):
            case "throttle":
                raise Throttled(retry_after=3600)
            case "retry":
                raise Transient("busy", code="HTTP_503")
            case "sleep":
                await task.sleep(3600)
            case "fail":
                raise Fatal("layout changed", code="LAYOUT")
            case "wait":
                await task.progress(0.5, "EXTRACT")
                await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("do", "words"),
    [
        ("throttle", "it was throttled and waits"),
        (
            "retry",
            "its last attempt failed and it waits to be tried again (last error HTTP_503: busy)",
        ),
        ("sleep", "it sleeps"),
    ],
)
async def test_it_waits_for_its_retry(app: Regente, sql: Sql, do: str, words: str) -> None:
    """Q5: with the reason of the wait."""
    task_id = await app.enqueue("p", {"do": do})
    async with running(app):
        await until(
            lambda: (
                task_row(sql, task_id)["attempt"] == 1
                and task_row(sql, task_id)["status"] == "queued"
            )
        )
    why = await app.why(task_id)
    assert why.code == "WAITING"
    assert words in why.summary
    assert why.details["due_in_seconds"] > 0


async def test_it_is_scheduled_for_later(app: Regente) -> None:
    """Q5: before its first attempt."""
    task_id = await app.enqueue("p", {}, run_at=datetime.now(UTC) + timedelta(hours=1))
    assert "it is scheduled" in str(await app.why(task_id))


async def test_no_runner_serves_its_pipeline(app: Regente, sql: Sql) -> None:
    """Q5: with the advice; a runner with an expired lease does not count."""
    task_id = await app.enqueue("p", {})
    SqlRunner.register(sql, ["other"])
    SqlRunner.register(sql, ["p"]).expire_lease()
    why = await app.why(task_id)
    assert (why.code, "regente run" in why.summary) == ("NO_RUNNER", True)


async def test_its_pipeline_is_paused(app: Regente) -> None:
    """Q5."""
    task_id = await app.enqueue("p", {})
    await app.pause("p")
    assert (await app.why(task_id)).code == "PAUSED"


async def test_it_is_next_or_behind_others(app: Regente, sql: Sql) -> None:
    """Q5: with the number of tasks before it."""
    SqlRunner.register(sql, ["p"])
    ids = await app.enqueue_many("p", [{}] * 5)
    await app.enqueue("p", {}, priority=5)
    why = await app.why(ids[3])
    assert (why.code, "4 tasks are ahead of it" in why.summary) == ("NEXT", True)


async def test_every_slot_is_taken(app: Regente) -> None:
    """Q5."""
    ids = await app.enqueue_many("p", [{"do": "wait"}] * 3)
    async with running(app, concurrency=2):
        await status_is(app, ids[1], "running")
        why = await app.why(ids[2])
    assert (why.code, "All 2 slots" in why.summary) == ("BUSY", True)


async def test_it_is_suspected_of_killing_its_runner(app: Regente, sql: Sql) -> None:
    """Q5, I7."""
    task_id = await app.enqueue("p", {})
    SqlRunner.register(sql, ["p"])
    sql.execute("UPDATE regente.tasks SET crashes = 2")
    assert (await app.why(task_id)).code == "SUSPECT"


async def test_it_runs_on_a_runner(app: Regente, sql: Sql) -> None:
    """Q5, S1: which runner, since when, until when the lease; a cancel request is named."""
    task_id = await app.enqueue("p", {"do": "wait"})
    async with running(app, name="worker-7"):
        await until(lambda: task_row(sql, task_id)["checkpoint"] == "EXTRACT")
        why = await app.why(task_id)
        assert why.code == "RUNNING"
        assert "at EXTRACT" in why.summary
        assert "worker-7" in why.summary
        sql.execute("UPDATE regente.tasks SET cancel_requested_at = now()")
        assert (await app.why(task_id)).code == "CANCELING"


async def test_it_shows_no_progress(app: Regente, sql: Sql, clock: Clock) -> None:
    """Q3, W6."""
    await app.run(until_idle=True)
    task_id = await app.enqueue("p", {})
    SqlRunner.register(sql, ["p"], ttl_seconds=3600).claim()
    clock.advance(seconds=90)
    why = await app.why(task_id)
    assert (why.code, "no progress" in why.summary) == ("STALLED", True)


async def test_it_is_dead_with_its_error(app: Regente) -> None:
    """Z4, W6."""
    task_id = await app.enqueue("p", {"do": "fail"})
    await app.run(until_idle=True)
    why = await app.why(task_id)
    assert (why.code, "LAYOUT: layout changed" in why.summary) == ("DEAD", True)


@pytest.mark.parametrize("status", ["draft", "completed", "canceled"])
async def test_it_has_ended_or_is_a_draft(app: Regente, status: str) -> None:
    """O2."""
    task_id = await app.enqueue("p", {}, draft=status != "completed")
    if status == "canceled":
        await app.cancel(task_id)
    await app.run(until_idle=True)
    assert (await app.why(task_id)).code == status.upper()
