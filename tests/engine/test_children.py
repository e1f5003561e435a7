"""Children: a task spawns others, waits for them without a slot, and gets their results once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from regente import (
    Child,
    ChildrenFailed,
    Fatal,
    InvalidInput,
    Regente,
    Retry,
    Transient,
)
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog import batches
from tests.engine.helpers import (
    Clock,
    Sql,
    column,
    events_of,
    many,
    one,
    running,
    status_is,
    task_row,
    until,
)

FAST = Retry(max_attempts=3, first=0.01, jitter=False)


class Number(BaseModel):
    number: int


@pytest.fixture
def square(registry: Registry) -> Registry:
    """A pipeline that squares a number; it refuses 13."""

    @registry.pipeline("square", args=Number, retry=FAST)
    async def run(task: Task[Number]) -> dict[str, int]:
        if task.args.number == 13:
            raise Fatal("not this one", code="UNLUCKY")
        return {"square": task.args.number**2}

    return registry


class Squared(BaseModel):
    square: int


def spawning(registry: Registry, numbers: list[int], **options: Any) -> None:
    @registry.pipeline("parent", retry=FAST)
    async def run(task: Task) -> Any:
        args = [{"number": number} for number in numbers]
        return await task.spawn("SQUARE", "square", args, **options)


async def test_a_parent_gets_the_results_in_the_order_of_the_arguments(
    app: Regente, sql: Sql, square: Registry
) -> None:
    spawning(square, [3, 1, 2])
    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "completed")
    assert task_row(sql, parent)["result"] == [{"square": 9}, {"square": 1}, {"square": 4}]
    assert events_of(sql, parent).count("task_spawned") == 1


async def test_a_waiting_parent_has_no_slot(app: Regente, sql: Sql, square: Registry) -> None:
    """With one slot for all of them, parent and children end."""
    spawning(square, [1, 2, 3, 4])
    parent = await app.enqueue("parent", {})
    async with running(app, concurrency=1):
        await status_is(app, parent, "completed")


async def test_results_have_the_type_that_is_asked_for(
    app: Regente, sql: Sql, square: Registry
) -> None:
    seen: list[Any] = []

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> None:
        seen.append(await task.spawn("SQUARE", "square", [Number(number=5)], of=Squared))

    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "completed")
    assert seen == [[Squared(square=25)]]


async def test_a_replay_gets_the_same_results_and_spawns_nothing(
    app: Regente, sql: Sql, square: Registry
) -> None:
    seen: list[Any] = []

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> None:
        seen.append(await task.spawn("SQUARE", "square", [{"number": 2}]))
        if task.tries == 0:
            raise Transient("once")

    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "completed")
    assert seen == [[{"square": 4}]] * 2
    assert one(sql, "SELECT count(*) AS n FROM regente.tasks")["n"] == 2


async def test_other_children_at_a_later_attempt_are_a_mismatch(
    app: Regente, sql: Sql, square: Registry
) -> None:
    """Also while the children of the first attempt still run."""

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> None:
        await task.spawn("SQUARE", "square", [{"number": task.attempt}])

    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "failed")
    row = task_row(sql, parent)
    assert row["error_code"] == "REPLAY_MISMATCH"
    assert "spawn(" in row["error_message"]


async def test_failed_children_raise_one_error_that_names_them(
    app: Regente, sql: Sql, square: Registry
) -> None:
    spawning(square, [1, 13, 2])
    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "failed")
    row = task_row(sql, parent)
    assert row["error_code"] == "CHILDREN_FAILED"
    assert "1 of 3" in row["error_message"]
    assert "UNLUCKY" in row["error_message"]
    assert row["tries"] == 1


async def test_failures_can_be_values(app: Regente, sql: Sql, square: Registry) -> None:
    seen: list[list[Child]] = []

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> None:
        args = [{"number": number} for number in (13, 4)]
        seen.append(await task.spawn("SQUARE", "square", args, failures="return"))
        if task.tries == 0:
            raise Transient("once")

    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "completed")
    assert seen[0] == seen[1]
    assert [(child.ok, child.error_code, child.result) for child in seen[0]] == [
        (False, "UNLUCKY", None),
        (True, None, {"square": 16}),
    ]


async def test_a_caught_failure_is_the_same_at_every_attempt(
    app: Regente, sql: Sql, square: Registry
) -> None:
    """Although the child is retried between the attempts, and succeeds."""
    seen: list[str] = []
    mended = asyncio.Event()

    @square.pipeline("flaky")
    async def flaky(task: Task) -> None:
        if not mended.is_set():
            raise Fatal("broken")

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> None:
        try:
            await task.spawn("FLAKY", "flaky", [{}])
        except ChildrenFailed as error:
            seen.append(error.code)
        if task.tries == 0:
            mended.set()
            (child,) = await app.tasks(pipeline="flaky")
            await app.retry(child.id)
            await status_is(app, child.id, "completed")
            raise Transient("once")

    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "completed")
    assert seen == ["CHILDREN_FAILED"] * 2


async def test_a_retried_parent_looks_at_its_children_again(
    app: Regente, sql: Sql, square: Registry
) -> None:
    mended = asyncio.Event()

    @square.pipeline("flaky")
    async def flaky(task: Task) -> str:
        if not mended.is_set():
            raise Fatal("broken")
        return "whole"

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> Any:
        return await task.spawn("FLAKY", "flaky", [{}])

    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "failed")
        mended.set()
        (batch,) = await app.children(parent)
        await app.reprocess_batch(batch.id)
        await app.retry(parent)
        await status_is(app, parent, "completed")
    assert task_row(sql, parent)["result"] == ["whole"]


async def test_the_first_ends_the_wait_and_the_others_are_canceled(
    app: Regente, sql: Sql, square: Registry
) -> None:
    release = asyncio.Event()

    @square.pipeline("race")
    async def race(task: Task[dict[str, int]]) -> int:
        if task.args["n"] != 2:
            await release.wait()
        return int(task.args["n"])

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> Any:
        return await task.spawn("RACE", "race", [{"n": n} for n in range(4)], first=1)

    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "completed")
        await until(
            lambda: (
                column(
                    sql,
                    "SELECT status::text FROM regente.tasks WHERE pipeline = 'race' ORDER BY id",
                ).count("canceled")
                == 3
            )
        )
    assert task_row(sql, parent)["result"] == [2]


async def test_too_few_successes_for_the_first_raise(
    app: Regente, sql: Sql, square: Registry
) -> None:
    spawning(square, [13, 13, 3], first=2)
    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "failed")
    assert task_row(sql, parent)["error_code"] == "CHILDREN_FAILED"


async def test_cancel_goes_down_the_tree(app: Regente, sql: Sql, square: Registry) -> None:
    """I5: a waiting parent, its waiting child, and a running grandchild."""
    started = asyncio.Event()

    @square.pipeline("leaf")
    async def leaf(task: Task) -> None:
        started.set()
        await asyncio.Event().wait()

    @square.pipeline("middle")
    async def middle(task: Task) -> None:
        await task.spawn("LEAF", "leaf", [{}, {}])

    @square.pipeline("parent")
    async def run(task: Task) -> None:
        await task.spawn("MIDDLE", "middle", [{}])

    parent = await app.enqueue("parent", {})
    async with running(app):
        await started.wait()
        assert await app.cancel(parent) == "canceled"
        await until(
            lambda: column(sql, "SELECT DISTINCT status::text FROM regente.tasks") == ["canceled"]
        )
    batches = column(sql, "SELECT DISTINCT status::text FROM regente.batches")
    assert batches == ["canceled"]


async def test_a_parent_canceled_while_it_runs_takes_its_children_along(
    app: Regente, sql: Sql, square: Registry
) -> None:
    @square.pipeline("leaf")
    async def leaf(task: Task) -> None:
        await asyncio.Event().wait()

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(task.spawn("LEAF", "leaf", [{}]))
            group.create_task(asyncio.Event().wait())

    parent = await app.enqueue("parent", {})
    async with running(app):
        await until(lambda: "task_spawned" in events_of(sql, parent))
        await app.cancel(parent)
        await until(
            lambda: column(sql, "SELECT DISTINCT status::text FROM regente.tasks") == ["canceled"]
        )


async def test_canceled_children_wake_their_parent(
    app: Regente, sql: Sql, square: Registry
) -> None:
    @square.pipeline("leaf")
    async def leaf(task: Task) -> None:
        await asyncio.Event().wait()

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> None:
        await task.spawn("LEAF", "leaf", [{}, {}])

    parent = await app.enqueue("parent", {})
    async with running(app):
        await until(lambda: "task_waiting" in events_of(sql, parent))
        (batch,) = await app.children(parent)
        await app.cancel_batch(batch.id)
        await status_is(app, parent, "failed")
    assert task_row(sql, parent)["error_code"] == "CHILDREN_FAILED"


async def test_a_run_until_idle_continues_with_the_parent(
    app: Regente, sql: Sql, square: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when nothing else is left to do before the batch is reviewed."""
    monkeypatch.setattr(batches, "GATHER_SECONDS", 5.0)
    spawning(square, [2])
    parent = await app.enqueue("parent", {})
    await app.run(until_idle=True)
    assert task_row(sql, parent)["result"] == [{"square": 4}]


async def test_no_children_are_no_wait(app: Regente, sql: Sql, square: Registry) -> None:
    spawning(square, [])
    parent = await app.enqueue("parent", {})
    await app.run(until_idle=True)
    assert task_row(sql, parent)["result"] == []
    assert "task_waiting" not in events_of(sql, parent)


async def test_ten_thousand_children_of_one_parent(
    app: Regente, sql: Sql, square: Registry
) -> None:
    @square.pipeline("echo")
    async def echo(task: Task[dict[str, int]]) -> int:
        return task.args["n"]

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> bool:
        args = [{"n": n} for n in range(10_000)]
        return await task.spawn("ECHO", "echo", args, of=int) == list(range(10_000))

    parent = await app.enqueue("parent", {})
    async with running(app, concurrency=500):
        await status_is(app, parent, "completed", within_seconds=120)
    assert task_row(sql, parent)["result"] is True
    assert one(sql, "SELECT total FROM regente.batches")["total"] == 10_000


async def test_tasks_nest_twenty_deep(app: Regente, sql: Sql, registry: Registry) -> None:
    """A pipeline that spawns itself for ever ends as a dead letter."""

    @registry.pipeline("again", retry=Retry(max_attempts=1))
    async def again(task: Task) -> None:
        await task.spawn("AGAIN", "again", [{}])

    first = await app.enqueue("again", {})
    async with running(app):
        await status_is(app, first, "failed", within_seconds=90)
    deepest = many(sql, "SELECT error_code, error_message FROM regente.tasks ORDER BY id")[-1]
    assert (deepest["error_code"], len(column(sql, "SELECT id FROM regente.tasks"))) == (
        "INVALID_INPUT",
        21,
    )
    assert "20 deep" in deepest["error_message"]


@pytest.mark.parametrize(
    ("pipeline", "args", "options"),
    [
        ("unknown", [{}], {}),
        ("square", [{"number": "x"}], {}),
        ("square", [{"number": 1}], {"first": 2}),
        ("square", [{"number": 1}], {"failures": "ignore"}),
        ("square", [{"number": 1}], {"priority": 10**6}),
    ],
)
async def test_what_cannot_be_spawned_is_refused_and_nothing_is_stored(
    app: Regente, sql: Sql, square: Registry, pipeline: str, args: list[Any], options: Any
) -> None:
    refused: list[BaseException] = []

    @square.pipeline("parent", retry=FAST)
    async def run(task: Task) -> None:
        try:
            await task.spawn("X", pipeline, args, **options)
        except InvalidInput as error:
            refused.append(error)

    await app.enqueue("parent", {})
    await app.run(until_idle=True)
    assert len(refused) == 1
    assert one(sql, "SELECT count(*) AS n FROM regente.tasks")["n"] == 1
    assert one(sql, "SELECT count(*) AS n FROM regente.batches")["n"] == 0


async def test_why_counts_the_children(app: Regente, sql: Sql, square: Registry) -> None:
    release = asyncio.Event()

    @square.pipeline("slow")
    async def slow(task: Task[dict[str, int]]) -> None:
        if task.args["n"]:
            await release.wait()

    @square.pipeline("parent")
    async def run(task: Task) -> None:
        await task.spawn("SLOW", "slow", [{"n": 0}, {"n": 1}])

    parent = await app.enqueue("parent", {})
    async with running(app):
        await until(lambda: "completed" in column(sql, "SELECT status::text FROM regente.tasks"))
        await until(lambda: "task_waiting" in events_of(sql, parent))
        answer = await app.why(parent)
        assert answer.code == "WAITING_FOR_CHILDREN"
        assert "1 of 2" in answer.summary
        release.set()
        await status_is(app, parent, "completed")


async def test_retention_keeps_the_children_of_a_waiting_parent(
    app: Regente, sql: Sql, square: Registry, clock: Clock
) -> None:
    from regente.engine.watchdog.retention import RetentionSweep

    @square.pipeline("parent")
    async def run(task: Task) -> Any:
        found = await task.spawn("SQUARE", "square", [{"number": 2}], failures="return")
        await task.wait_for("go")
        return found[0].result

    parent = await app.enqueue("parent", {})
    async with running(app):
        await until(lambda: events_of(sql, parent).count("task_waiting") == 2)
    clock.advance(days=40)
    await RetentionSweep(app.database, 1.0, 86_400.0).run_once()
    assert len(column(sql, "SELECT id FROM regente.tasks")) == 2


async def test_a_closing_while_the_parent_begins_to_wait_is_not_missed(
    app: Regente, sql: Sql, square: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race: the children end after the look and before the parent is queued again."""
    from regente.engine.task_store import TaskStore

    look = TaskStore.await_children

    async def ended_meanwhile(self: TaskStore, *what: Any) -> bool | None:
        found = await look(self, *what)
        await until(lambda: "completed" in column(sql, "SELECT status::text FROM regente.batches"))
        return found

    monkeypatch.setattr(TaskStore, "await_children", ended_meanwhile)
    spawning(square, [2])
    parent = await app.enqueue("parent", {})
    async with running(app):
        await status_is(app, parent, "completed")


async def test_many_parents_and_children_at_once(app: Regente, sql: Sql, square: Registry) -> None:
    """I1, I2, I9: each child and each parent once, also when children end before the wait."""
    spawning(square, list(range(10)))
    parents = await app.enqueue_many("parent", [{}] * 50)
    async with running(app, concurrency=40):
        await until(
            lambda: (
                column(sql, "SELECT count(*) FROM regente.tasks WHERE status = 'completed'")
                == [550]
            ),
            within_seconds=90,
        )
    results = column(sql, "SELECT result FROM regente.tasks WHERE pipeline = 'parent'")
    assert results == [[{"square": n * n} for n in range(10)]] * len(parents)
