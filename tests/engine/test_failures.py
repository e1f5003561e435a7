"""What each class of error does to the task, its tries and its failure record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regente import Blocked, Fatal, Regente, Retry, Skip, Throttled, Transient
from regente.engine.errors import DatabaseUnavailable, InvalidInput, LeaseLost
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Clock, Sql, events_of, many, one, running, status_is, task_row

FAST = Retry(max_attempts=3, first=0.01, jitter=False)


def failures(sql: Sql, task_id: int) -> list[dict[str, Any]]:
    return many(sql, "SELECT * FROM regente.failures WHERE task_id = %s ORDER BY id", task_id)


def raising(
    registry: Registry, *errors: BaseException, name: str = "p", retry: Retry = FAST
) -> list[int]:
    """A pipeline that raises these errors, one per attempt, then succeeds; returns its attempts."""
    attempts: list[int] = []

    @registry.pipeline(name, retry=retry)
    async def run(task: Task) -> str:
        attempts.append(task.attempt)
        if len(attempts) <= len(errors):
            raise errors[len(attempts) - 1]
        return "done"

    return attempts


async def ran(app: Regente, **options: Any) -> int:
    task_id = await app.enqueue("p", {}, **options)
    await app.run(until_idle=True)
    return task_id


async def test_a_transient_error_is_tried_again(app: Regente, registry: Registry, sql: Sql) -> None:
    """Z2, W3: each failed attempt is charged and recorded; the success clears the error."""
    attempts = raising(
        registry, Transient("busy", code="HTTP_503", details={"url": "u"}), ValueError("odd")
    )
    task_id = await ran(app)
    row = task_row(sql, task_id)
    assert (row["status"], row["attempt"], row["tries"], row["error_code"]) == (
        "completed",
        3,
        2,
        None,
    )
    assert attempts == [1, 2, 3]
    first, second = failures(sql, task_id)
    assert (first["class"], first["code"], first["message"], first["details"]) == (
        "transient",
        "HTTP_503",
        "busy",
        {"url": "u"},
    )
    assert (second["class"], second["code"], second["message"]) == (
        "transient",
        "ValueError",
        "odd",
    )
    assert "in run" in first["stack"]
    assert events_of(sql, task_id) == [
        "task_queued",
        "task_claimed",
        "task_retried",
        "task_claimed",
        "task_retried",
        "task_claimed",
        "task_completed",
    ]


async def test_exhausted_attempts_end_in_the_dead_letters(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I7, S4: never more attempts than allowed, and the last error is on the task."""
    attempts = raising(registry, *[Transient(f"no {n}") for n in range(9)])
    task_id = await ran(app)
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"], row["error_code"], row["error_message"]) == (
        "failed",
        3,
        "TRANSIENT",
        "no 2",
    )
    assert attempts == [1, 2, 3]
    assert events_of(sql, task_id)[-1] == "task_failed"


@pytest.mark.parametrize("allowed", [1, 2, 5])
async def test_the_tasks_own_max_attempts_wins(
    app: Regente, registry: Registry, sql: Sql, allowed: int
) -> None:
    """W3: the task's own limit may be above or below the pipeline's."""
    attempts = raising(registry, *[Transient()] * 9)
    await ran(app, max_attempts=allowed)
    assert len(attempts) == allowed


async def test_throttled_waits_and_charges_no_attempt(
    app: Regente, registry: Registry, sql: Sql, clock: Clock
) -> None:
    """W8: the task waits as long as the error says."""
    attempts = raising(registry, *[Throttled("slow down", retry_after=3600)] * 5)
    task_id = await app.enqueue("p", {}, max_attempts=1)
    for turn in range(1, 6):
        async with running(app):
            await status_is_throttled(app, task_id, turn)
        row = task_row(sql, task_id)
        assert (row["tries"], row["attempt"]) == (0, turn)
        waits = one(
            sql,
            "SELECT extract(epoch FROM run_at - regente.clock())::float AS s FROM regente.tasks",
        )["s"]
        assert 3500 < waits <= 3600
        clock.advance(hours=1)
    await app.run(until_idle=True)
    assert (task_row(sql, task_id)["status"], len(attempts)) == ("completed", 6)
    assert {row["class"] for row in failures(sql, task_id)} == {"throttled"}


async def status_is_throttled(app: Regente, task_id: int, attempt: int) -> None:
    from tests.support.eventually import eventually_async

    async def waits() -> bool:
        task = await app.get(task_id)
        return task.status == "queued" and task.attempt == attempt

    await eventually_async(waits)


async def test_fatal_goes_straight_to_the_dead_letters(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z2, Z4: no second attempt; the error is kept as JSON."""
    attempts = raising(
        registry, Fatal("layout changed", code="LAYOUT", details={"selector": "#price", "n": [1]})
    )
    task_id = await ran(app)
    assert (task_row(sql, task_id)["status"], attempts) == ("failed", [1])
    (failure,) = failures(sql, task_id)
    assert (failure["class"], failure["code"], failure["details"]) == (
        "fatal",
        "LAYOUT",
        {"selector": "#price", "n": [1]},
    )
    assert (await app.failures(task_id))[0]["message"] == "layout changed"


async def test_blocked_is_retried_and_classified_apart(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """O15: a blocked resource is its own class of failure."""
    raising(registry, Blocked("captcha"))
    task_id = await ran(app)
    assert task_row(sql, task_id)["status"] == "completed"
    assert [(row["class"], row["code"]) for row in failures(sql, task_id)] == [
        ("blocked", "BLOCKED")
    ]


@pytest.mark.parametrize("by_method", [False, True])
async def test_skip_is_an_end_but_no_failure(
    app: Regente, registry: Registry, sql: Sql, by_method: bool
) -> None:
    """Z8, W4: the task ends as skipped."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        if by_method:
            task.skip("already there")
        raise Skip("already there", details={"id": 7})

    task_id = await ran(app)
    assert task_row(sql, task_id)["status"] == "skipped"
    assert failures(sql, task_id) == []
    details = one(sql, "SELECT details FROM regente.events WHERE event = 'task_skipped'")["details"]
    assert details["reason"] == "already there"


async def test_invalid_input_from_the_engine_is_fatal(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z2: an invalid call of the engine is not retried."""
    attempts = raising(registry, InvalidInput("no such thing"))
    assert task_row(sql, await ran(app))["status"] == "failed"
    assert attempts == [1]


async def test_arguments_that_no_longer_fit_the_pipeline_are_fatal(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z3: stored by older code, read by newer: a dead letter with that reason."""
    from pydantic import BaseModel

    class Args(BaseModel):
        wanted: int

    @registry.pipeline("p", args=Args)
    async def run(task: Task[Args]) -> int:
        return task.args.wanted

    sql.execute("INSERT INTO regente.tasks (pipeline, args) VALUES ('p', '{\"old\": 1}')")
    await app.run(until_idle=True)
    assert one(sql, "SELECT status::text, error_code FROM regente.tasks") == {
        "status": "failed",
        "error_code": "INVALID_ARGS",
    }


async def test_the_class_inside_an_exception_group_decides(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z2: structured concurrency wraps errors in groups."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        async def broken() -> None:
            raise Fatal("inside", code="INSIDE")

        async with asyncio.TaskGroup() as group, asyncio.TaskGroup() as inner:
            inner.create_task(broken())
            group.create_task(asyncio.Event().wait())

    task_id = await ran(app)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["attempt"]) == ("failed", "INSIDE", 1)


async def test_the_worst_error_of_a_group_decides(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Z2: a fatal error in a group is not retried because of a transient one."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        raise ExceptionGroup("both", [Transient("first"), Fatal("second", code="WORST")])

    task_id = await ran(app)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["attempt"]) == ("failed", "WORST", 1)


async def test_a_pipeline_that_cancels_itself_has_failed(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I1: without a cancel request it is a failure."""
    raising(registry, asyncio.CancelledError())
    task_id = await ran(app)
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"]) == ("completed", 1)
    assert failures(sql, task_id)[0]["code"] == "CancelledError"


async def test_except_exception_does_not_swallow_a_lost_lease(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I3: `LeaseLost` is no `Exception`."""
    swallowed: list[BaseException] = []
    at_work, go_on = asyncio.Event(), asyncio.Event()

    @registry.pipeline("p")
    async def run(task: Task) -> str:
        at_work.set()
        await go_on.wait()
        try:
            await task.step("A", lambda: 1)
        except Exception as error:
            swallowed.append(error)
        return "finished against the fence"

    task_id = await app.enqueue("p", {})
    async with running(app):
        await at_work.wait()
        sql.execute("UPDATE regente.tasks SET attempt = attempt + 1")
        go_on.set()
        await app_is_free(app)
        row = task_row(sql, task_id)
        sql.execute("UPDATE regente.tasks SET status = 'queued', runner_id = NULL")
        await status_is(app, task_id, "completed")
    assert swallowed == []
    assert (row["status"], row["result"], row["attempt"]) == ("running", None, 2)
    assert not issubclass(LeaseLost, Exception)


async def app_is_free(app: Regente) -> None:
    from tests.engine.helpers import until

    await until(lambda: app._runner is not None and app._runner.running_count == 0)


@pytest.mark.parametrize("grouped", [False, True])
async def test_an_unavailable_database_costs_no_try(
    app: Regente, registry: Registry, sql: Sql, grouped: bool
) -> None:
    """Z2: a client's call inside a pipeline that found it away is not the task's fault."""
    error: Exception = DatabaseUnavailable("PostgreSQL is away")
    raising(registry, ExceptionGroup("calls", [error]) if grouped else error)
    task_id = await ran(app)
    row = task_row(sql, task_id)
    assert (row["status"], row["attempt"], row["tries"]) == ("completed", 2, 0)
    (failure,) = failures(sql, task_id)
    assert (failure["class"], failure["code"]) == ("throttled", "DATABASE_UNAVAILABLE")


async def test_endless_throttling_keeps_the_first_and_the_last_failure(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I10: and how many there were; another code or class is a failure of its own."""
    slow = [Throttled(f"slow {n}", retry_after=0, code="HTTP_429") for n in range(6)]
    later = [Throttled(f"full {n}", retry_after=0, code="FULL") for n in range(3)]
    raising(registry, *slow, Transient("broken", code="HTTP_500"), *later)
    task_id = await ran(app)
    assert task_row(sql, task_id)["attempt"] == 11
    kept = [(one["code"], one["message"], one["details"]) for one in failures(sql, task_id)]
    assert kept == [
        ("HTTP_429", "slow 0", {}),
        ("HTTP_429", "slow 5", {"throttled_times": 6}),
        ("HTTP_500", "broken", {}),
        ("FULL", "full 0", {}),
        ("FULL", "full 2", {"throttled_times": 3}),
    ]
