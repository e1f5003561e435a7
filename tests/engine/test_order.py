"""The order of claims: priority, then age; not before `run_at`; no starvation; one task per key."""

from __future__ import annotations

import asyncio
import functools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from regente import Regente, UnknownPipeline
from regente.engine.errors import TaskError, Throttled, Transient
from regente.engine.pipeline import Registry
from regente.engine.priority_levels import KEEPS_PLACE_ATTEMPTS, rank_of
from regente.engine.retry import Retry
from regente.engine.task import Task
from tests.engine.conftest import OpenApp
from tests.engine.helpers import (
    Clock,
    Sql,
    SqlRunner,
    column,
    many,
    one,
    running,
    task_row,
    until,
)


@pytest.fixture(autouse=True)
def ran(registry: Registry) -> list[Any]:
    found: list[Any] = []

    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> None:
        found.append(task.args.get("n"))

    return found


async def test_the_oldest_comes_first(app: Regente, ran: list[Any]) -> None:
    """S3, O7: first in, first out."""
    await app.enqueue_many("p", [{"n": n} for n in range(250)])
    for n in range(250, 260):
        await app.enqueue("p", {"n": n})
    await app.run(until_idle=True, concurrency=1)
    assert ran == list(range(260))


async def test_higher_priority_comes_first(app: Regente, ran: list[Any]) -> None:
    """S3: within a priority the oldest comes first."""
    for n, priority in enumerate([0, 5, -3, 5, 32767, 0, -32768]):
        await app.enqueue("p", {"n": n}, priority=priority)
    await app.run(until_idle=True, concurrency=1)
    assert ran == [4, 1, 3, 0, 5, 2, 6]


async def test_a_task_that_comes_back_keeps_its_place(
    app: Regente, registry: Registry, sql: Sql, open_app: OpenApp
) -> None:
    """S3, I8: what a dead runner held is next in one that has claimed younger tasks and knows a
    floor."""
    order: list[int] = []
    step = asyncio.Event()

    @registry.pipeline("slow")
    async def slow(task: Task[dict[str, Any]]) -> None:
        order.append(task.args["n"])
        await step.wait()
        step.clear()

    dead = SqlRunner.register(sql, ["slow"], ttl_seconds=3600)
    await app.enqueue_many("slow", [{"n": n} for n in range(8)])
    first = dead.claim(3)
    async with running(await open_app(), concurrency=1):
        await until(lambda: order == [3])
        dead.expire_lease()
        await until(lambda: [task_row(sql, one)["status"] for one in first] == ["queued"] * 3)
        while len(order) < 8:
            begun = len(order)
            step.set()
            await until(functools.partial(has_more, order, begun))
        step.set()
    assert order == [3, 0, 1, 2, 4, 5, 6, 7]


def has_more(found: list[int], than: int) -> bool:
    return len(found) > than


@pytest.mark.parametrize("error", [Throttled("later", retry_after=0.1), Transient("again")])
async def test_a_due_retry_comes_before_tasks_that_never_ran(
    app: Regente, registry: Registry, sql: Sql, error: TaskError
) -> None:
    """S3: oldest first is by age; the time of the last attempt does not count."""
    order: list[int] = []
    step = asyncio.Event()

    @registry.pipeline("slow", retry=Retry(first=0.1))
    async def slow(task: Task[dict[str, Any]]) -> None:
        order.append(task.args["n"])
        if task.args["n"] == 0 and task.attempt == 1:
            raise error
        await step.wait()
        step.clear()

    first, *_ = await app.enqueue_many("slow", [{"n": n} for n in range(6)])
    async with running(app, concurrency=1):
        await until(lambda: order == [0, 1])
        # A little later than due, because the runner counts from when it heard of the retry.
        late = "SELECT run_at < regente.clock() - interval '0.5 s' AS late FROM regente.tasks"
        await until(lambda: one(sql, f"{late} WHERE id = {first}")["late"])
        while len(order) < 7:
            begun = len(order)
            step.set()
            await until(functools.partial(has_more, order, begun))
        step.set()
    assert order == [0, 1, 0, 2, 3, 4, 5]


async def test_retries_without_end_starve_no_other_task(app: Regente, registry: Registry) -> None:
    """S3, I8: after ten attempts a task has no precedence over those that never ran."""
    order: list[str] = []
    stop = asyncio.Event()

    @registry.pipeline("busy")
    async def busy(task: Task[dict[str, Any]]) -> None:
        order.append(task.args["name"])
        if task.args["name"] == "new":
            stop.set()
        if not stop.is_set():
            raise Throttled("again", retry_after=0)

    await app.enqueue_many("busy", [{"name": "old"}] * 3)
    await app.enqueue("busy", {"name": "new"})
    await app.run(["busy"], until_idle=True, concurrency=1)
    assert order.index("new") <= 3 * (1 + KEEPS_PLACE_ATTEMPTS)


def test_the_database_and_the_runner_know_the_same_ranks(sql: Sql) -> None:
    """S3: the index has the expression, the runner's levels the number."""
    for priority in (-32768, -1, 0, 1, 32767):
        for attempt in (0, 1, KEEPS_PLACE_ATTEMPTS, KEEPS_PLACE_ATTEMPTS + 1):
            found = one(
                sql, f"SELECT regente.claim_rank(({priority})::smallint, {attempt}) AS rank"
            )["rank"]
            assert found == rank_of(priority, attempt)


async def test_a_task_waits_for_its_time(
    app: Regente, sql: Sql, clock: Clock, ran: list[Any]
) -> None:
    """`run_at` by the database's clock, also with a higher priority."""
    soon = datetime.now(UTC) + timedelta(hours=1)
    await app.enqueue("p", {"n": "later"}, run_at=soon, priority=9)
    await app.enqueue("p", {"n": "now"})
    async with running(app):
        await until(lambda: ran == ["now"])
    assert (await app.counts())["queued"] == 1
    clock.advance(minutes=61)
    await app.run(until_idle=True)
    assert ran == ["now", "later"]


@pytest.mark.usefixtures("no_polls")
async def test_a_runner_wakes_up_for_a_task_that_falls_due(app: Regente, ran: list[Any]) -> None:
    """Before its next poll, for tasks enqueued before and after its start."""
    await app.enqueue("p", {"n": 1}, run_at=datetime.now(UTC) + timedelta(seconds=0.5))
    await app.enqueue("p", {"n": 0})
    async with running(app):
        await until(lambda: ran == [0, 1])
        await app.enqueue("p", {"n": 2}, run_at=datetime.now(UTC) + timedelta(seconds=0.3))
        await until(lambda: ran == [0, 1, 2])


async def test_steady_work_starves_no_other_priority(
    app: Regente, registry: Registry, sql: Sql, ran: list[Any]
) -> None:
    """I8: a task without a notification is found while the runner is always a little busy."""
    stop = asyncio.Event()

    @registry.pipeline("chain")
    async def chain(task: Task) -> None:
        if not stop.is_set():
            await app.enqueue("chain", {})

    await app.enqueue("chain", {})
    async with running(app, concurrency=10):
        await until(lambda: one(sql, "SELECT count(*) FROM regente.tasks")["count"] > 20)
        sql.execute(
            "INSERT INTO regente.tasks (pipeline, priority, args) VALUES ('p', 5, '{\"n\": "
            '"silent"}\')'
        )
        sql.execute(
            "INSERT INTO regente.tasks (pipeline, priority, args) VALUES ('p', -5, "
            '\'{"n": "low"}\')'
        )
        await until(lambda: sorted(ran) == ["low", "silent"])
        stop.set()


async def test_no_pipeline_starves_another(app: Regente, registry: Registry) -> None:
    """I8: claims rotate among the pipelines."""
    order: list[str] = []

    for name in ("a", "b"):

        @registry.pipeline(name)
        async def run(task: Task) -> None:
            order.append(task.pipeline)

    await app.enqueue_many("a", [{}] * 100)
    await app.enqueue_many("b", [{}] * 100)
    await app.run(["a", "b"], until_idle=True, concurrency=10)
    assert set(order[:40]) == {"a", "b"}


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_pipelines_own_concurrency_is_a_limit(
    app: Regente, registry: Registry, limit: int
) -> None:
    """W1: over all its priorities; other pipelines use the remaining slots."""
    busy, most, others = 0, 0, 0
    full = asyncio.Event()

    @registry.pipeline("narrow", concurrency=limit)
    async def narrow(task: Task) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if busy == limit and others == 10:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        busy -= 1

    @registry.pipeline("wide")
    async def wide(task: Task) -> None:
        nonlocal others
        others += 1
        if busy == limit and others == 10:
            full.set()
        await full.wait()

    for priority in (0, 1, 2, 3):
        await app.enqueue_many("narrow", [{}] * 5, priority=priority)
    await app.enqueue_many("wide", [{}] * 10)
    await app.run(["narrow", "wide"], until_idle=True, concurrency=50)
    assert most == limit


@pytest.mark.usefixtures("no_polls")
async def test_a_paused_pipeline_is_not_claimed_until_it_is_resumed(
    app: Regente, ran: list[Any], sql: Sql
) -> None:
    """Running tasks go on; the state is stored and its event written."""
    await app.pause("p")
    await app.pause("p")
    await app.enqueue("p", {"n": 1})
    await app.run(until_idle=True)
    assert ran == []
    assert [p["paused"] for p in await app.pipelines()] == [True]
    async with running(app):
        await until(lambda: app._runner is not None and app._runner._listener.listening)
        await app.resume("p")
        await until(lambda: ran == [1])
    events = column(
        sql, "SELECT event FROM regente.events WHERE event LIKE 'pipeline%%' ORDER BY id"
    )
    assert events == ["pipeline_paused", "pipeline_resumed"]


async def test_pausing_does_not_stop_running_tasks(app: Regente, registry: Registry) -> None:
    """Pause is no cancel."""
    started, go_on = asyncio.Event(), asyncio.Event()

    @registry.pipeline("slow")
    async def slow(task: Task) -> str:
        started.set()
        await go_on.wait()
        return "done"

    task_id = await app.enqueue("slow", {})
    async with running(app, ["slow"]):
        await started.wait()
        await app.pause("slow")
        go_on.set()
    assert (await app.get(task_id)).result == "done"


async def test_an_unknown_pipeline_can_be_neither_paused_nor_run(app: Regente) -> None:
    """F15: clear errors."""
    with pytest.raises(UnknownPipeline, match="no pipeline is called 'nope'"):
        await app.pause("nope")
    with pytest.raises(UnknownPipeline, match="no pipeline is called nope"):
        await app.run(["nope"], until_idle=True)


async def test_one_key_names_one_task(app: Regente, sql: Sql, ran: list[Any]) -> None:
    """S5: before, during and after its run; keys are separate for each pipeline."""
    first = await app.enqueue("p", {"n": 1}, key="k")
    assert await app.enqueue("p", {"n": 2}, key="k") == first
    await app.run(until_idle=True)
    assert await app.enqueue("p", {"n": 3}, key="k") == first
    assert (task_row(sql, first)["args"], ran) == ({"n": 1}, [1])
    assert one(sql, "SELECT count(*) FROM regente.events WHERE event = 'task_queued'")["count"] == 1


async def test_duplicate_keys_in_one_call_and_from_earlier_calls(app: Regente, sql: Sql) -> None:
    """S5: ids in the order of the arguments; the first of a key wins; the batch counts it once."""
    old = await app.enqueue("p", {"n": 0}, key="old", batch="b")
    ids = await app.enqueue_many(
        "p", [{"n": n} for n in range(6)], keys=["a", None, "old", "a", None, "b"], batch="b"
    )
    assert ids[0] == ids[3]
    assert ids[2] == old
    assert len(set(ids)) == 5
    rows = {row["id"]: row["args"]["n"] for row in many(sql, "SELECT id, args FROM regente.tasks")}
    assert [rows[task_id] for task_id in ids] == [0, 1, 0, 0, 4, 5]
    store = await app.batch("b")
    assert (store.total, store.queued, store.balanced) == (5, 5, True)


async def test_concurrent_callers_with_one_key_store_one_task(
    app: Regente, open_app: OpenApp, sql: Sql
) -> None:
    """S5, F12: every create is delivered at least twice."""
    apps = [app, await open_app(), await open_app()]
    ids = await asyncio.gather(
        *(apps[n % 3].enqueue("p", {"n": n}, key=f"k{n % 4}") for n in range(60))
    )
    assert len(set(ids)) == 4
    assert one(sql, "SELECT count(*) FROM regente.tasks")["count"] == 4
    assert all(ids[n] == ids[n % 4] for n in range(60))
