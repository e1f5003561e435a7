"""Lanes: limits that all runners share, turns, order within a lane, and who is woken when."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from regente import InvalidInput, LaneLimits, Regente
from regente.engine.holding import HELD
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.task_store import Claim, TaskStore
from tests.engine.conftest import OpenApp
from tests.engine.helpers import (
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
from tests.support.eventually import eventually_async

Args = dict[str, Any]


class Pages:
    """What runs, by lane; tasks wait until the gate opens."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started: list[Any] = []
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}

    async def run(self, task: Task[Args]) -> None:
        lane = task.args["host"]
        self.started.append(task.args.get("n"))
        self.now[lane] = self.now.get(lane, 0) + 1
        self.most[lane] = max(self.most.get(lane, 0), self.now[lane])
        try:
            await self.gate.wait()
        finally:
            self.now[lane] -= 1


@pytest.fixture
def pages(registry: Registry) -> Pages:
    found = Pages()
    limits = LaneLimits(concurrency=2)
    registry.pipeline("pages", lane=lambda args: args.get("host"), lane_limits=limits)(found.run)

    @registry.pipeline("free")
    async def free(task: Task[Args]) -> None:
        found.started.append(task.args.get("n"))

    return found


async def opened(app: Regente, *lanes: str) -> None:
    """Wait until these lanes are ready: their tasks were announced after the commit."""

    async def ready() -> bool:
        names = column_of(await app.database.fetch("survey_lanes", {"pipelines": "{pages,free}"}))
        return bool(names) and {lane.name for lane in await app.lanes.list()} >= {*lanes}

    await eventually_async(ready)


def column_of(rows: list[tuple[Any, ...]]) -> list[Any]:
    return [row[0] for row in rows]


@pytest.fixture
async def store(app: Regente, sql: Sql) -> AsyncIterator[TaskStore]:
    """Of a runner that the test plays."""
    found = TaskStore(app.database, SqlRunner.register(sql, ["pages", "free"]).id)
    yield found
    await found.stop()


async def claim(store: TaskStore, slots: int, **room: int) -> list[Claim]:
    found = await store.claim_lanes(room, slots, 50)
    return found.claims


async def test_no_more_run_than_the_lane_allows(app: Regente, pages: Pages, sql: Sql) -> None:
    """Q2, S3: over several runners and pipelines; the rest starts as the first end."""
    ids = await app.enqueue_many("pages", [{"host": "a", "n": n} for n in range(7)])
    async with running(app):
        await until(lambda: len(pages.started) == 2)
        pages.gate.set()
        for task_id in ids:
            await status_is(app, task_id, "completed")
    assert pages.started == list(range(7))
    assert pages.most == {"a": 2}


async def test_two_runners_share_the_limit(
    app: Regente, pages: Pages, sql: Sql, open_app: OpenApp
) -> None:
    """Q2: fleet-wide."""
    other = await open_app()
    ids = await app.enqueue_many("pages", [{"host": "a"} for _ in range(30)])
    async with running(app, concurrency=5), running(other, concurrency=5):
        await until(lambda: len(pages.started) == 2)
        pages.gate.set()
        for task_id in ids:
            await status_is(app, task_id, "completed")
    assert pages.most == {"a": 2}


@pytest.mark.usefixtures("no_polls")
async def test_an_enqueue_starts_at_once_without_polls(app: Regente, pages: Pages) -> None:
    """Q2: in a lane that is new, one that was emptied, and with the last end of a full lane."""
    pages.gate.set()
    async with running(app):
        for n in range(4):
            task_id = await app.enqueue("pages", {"host": "a", "n": n})
            await status_is(app, task_id, "completed")
        pages.gate.clear()
        ids = [await app.enqueue("pages", {"host": "a", "n": n}) for n in range(4, 9)]
        await until(lambda: len(pages.started) == 6)
        pages.gate.set()
        for task_id in ids:
            await status_is(app, task_id, "completed")
    assert pages.started == list(range(9))


@pytest.mark.usefixtures("no_polls")
async def test_an_end_wakes_another_runner(
    app: Regente, pages: Pages, sql: Sql, open_app: OpenApp
) -> None:
    """Q2: the one whose task has ended does not take another."""
    other = await open_app()
    async with running(app, concurrency=2):
        await app.enqueue_many("pages", [{"host": "a", "n": n} for n in range(2)])
        await until(lambda: len(pages.started) == 2)
        last = await app.enqueue("pages", {"host": "a", "n": 2})
        async with running(other):
            await eventually_async(lambda: two_live(app))
            app.stop_running()
            pages.gate.set()
            await status_is(app, last, "completed")
    assert pages.most == {"a": 2}


async def two_live(app: Regente) -> bool:
    return len(await app.runners()) == 2


async def test_lanes_take_turns(app: Regente, pages: Pages, store: TaskStore, sql: Sql) -> None:
    """Q2: ten tasks beside many come with the next turn."""
    for lane, count in (("large", 300), ("small", 10)):
        await app.enqueue_many("free", [{"n": lane} for _ in range(count)], lane=lane)
        await opened(app, lane)
    first = await claim(store, 32, free=32)
    assert [c.lane for c in first].count("small") == 10


async def test_a_lane_gets_turns_by_its_weight(
    app: Regente, pages: Pages, store: TaskStore, sql: Sql
) -> None:
    """Q2: also when a runner has one free slot at a time."""
    for lane in ("light", "heavy"):
        await app.enqueue_many("free", [{} for _ in range(100)], lane=lane)
        await opened(app, lane)
    await app.lanes.set("heavy", weight=3)
    taken = [c.lane for _ in range(64) for c in await claim(store, 1, free=1)]
    assert (taken.count("heavy"), taken.count("light")) == (48, 16)
    taken = [c.lane for c in await claim(store, 64, free=64)]
    assert (taken.count("heavy"), taken.count("light")) == (48, 16)


async def test_order_within_a_lane(app: Regente, pages: Pages, store: TaskStore, sql: Sql) -> None:
    """S3: priority, then age; not before its time."""
    later = datetime.now(UTC) + timedelta(hours=1)
    await app.enqueue("free", {"n": "later"}, lane="a", priority=9, run_at=later)
    for n, priority in enumerate([0, 5, -3, 5, 0]):
        await app.enqueue("free", {"n": n}, lane="a", priority=priority)
    await opened(app, "a")
    found = [c for _ in range(6) for c in await claim(store, 1, free=1)]
    assert [
        one(sql, "SELECT args FROM regente.tasks WHERE id = %s", c.id)["args"]["n"] for c in found
    ] == [1, 3, 0, 4, 2]


async def test_a_task_is_due_at_its_time(app: Regente, pages: Pages, sql: Sql) -> None:
    """S3, Q4: `run_at` counts in a lane; what people see is the real one."""
    pages.gate.set()
    due = datetime.now(UTC) + timedelta(seconds=1)
    task_id = await app.enqueue("pages", {"host": "a"}, run_at=due)
    assert (await app.get(task_id)).run_at == due
    assert (await app.why(task_id)).code == "WAITING"
    async with running(app):
        await status_is(app, task_id, "completed")
    assert task_row(sql, task_id)["claimed_at"] >= due


async def test_held_tasks_wait_in_their_lane(app: Regente, pages: Pages) -> None:
    """O7: until they are released."""
    pages.gate.set()
    held = await app.enqueue("pages", {"host": "a", "n": "held"}, run_at=HELD)
    other = await app.enqueue("pages", {"host": "a", "n": "other"})
    assert (await app.why(held)).code == "HELD"
    async with running(app):
        await status_is(app, other, "completed")
        assert await app.release([held]) == [held]
        await status_is(app, held, "completed")


async def test_paused_pipelines_and_full_runners_keep_their_lanes(
    app: Regente, pages: Pages, store: TaskStore
) -> None:
    """O16: a paused pipeline, and the pipeline's own concurrency."""
    await app.enqueue_many("pages", [{"host": f"h{n}"} for n in range(6)])
    await app.enqueue("free", {}, lane="h0")
    await opened(app, "h5")
    await app.pause("pages")
    assert [c.pipeline for c in await claim(store, 9, pages=9, free=9)] == ["free"]
    await app.resume("pages")
    assert len(await claim(store, 9, pages=4, free=9)) == 4


@pytest.mark.parametrize("lane", ["", "x" * 201, "a\x00b", 7, "\ud800"])
async def test_names_of_lanes(app: Regente, pages: Pages, lane: Any, sql: Sql) -> None:
    """O7: refused at the door, nothing is stored."""
    with pytest.raises(InvalidInput, match="lane"):
        await app.enqueue("free", {}, lane=lane)
    with pytest.raises(InvalidInput, match="lane"):
        await app.enqueue_many("free", [{}] * 300, lane=lane)
    with pytest.raises(InvalidInput):
        await app.enqueue("pages", {"host": lane})
    with pytest.raises(InvalidInput, match="lane"):
        await app.schedule("s", "free", "0 4 * * *", lane=lane)
    assert column(sql, "SELECT id FROM regente.tasks") == []


async def test_every_way_in(app: Regente, pages: Pages, sql: Sql) -> None:
    """O7, O14: one, many, by COPY, with keys, into a batch, as drafts, by a schedule, in the
    caller's transaction; with strange names and beside tasks without a lane."""
    strange = 'tab\t back\\slash "quote" \n Größe {a,b} NULL \\N'
    args = [{"host": strange if n % 2 else None, "n": "x"} for n in range(400)]
    await app.enqueue_many("pages", args)
    await app.enqueue_many("pages", args[:4], keys=["a", None, "c", "d"], batch="b")
    await app.enqueue("pages", args[1], key="a", lane="other")
    draft = await app.enqueue("pages", args[1], draft=True)
    await app.schedule("nightly", "pages", "0 4 * * *", args[1])
    async with app.database.transaction() as connection:
        await app.enqueue("pages", args[1], connection=connection)
        await app.enqueue("pages", args[0], connection=connection)
    rows = many(sql, "SELECT lane, args ->> 'host' AS host, run_at, lane_run_at FROM regente.tasks")
    assert len(rows) == 407
    assert all(row["lane"] == row["host"] for row in rows)
    assert all((row["lane_run_at"] is None) == (row["lane"] is None) for row in rows)
    assert all(row["run_at"].year == 3500 for row in rows if row["lane"])
    assert await app.queue([draft]) == [draft]
    sql.execute("UPDATE regente.schedules SET next_at = regente.clock() - interval '1 minute'")
    pages.gate.set()
    await app.run(until_idle=True)
    assert (await app.counts())["completed"] >= 407
    assert pages.most[strange] <= 2


async def test_a_caller_s_transaction_is_announced_after_its_commit(
    app: Regente, pages: Pages
) -> None:
    """O7: the lane is not locked meanwhile, and is ready at once then."""
    pages.gate.set()
    async with running(app):
        first = await app.enqueue("pages", {"host": "a"})
        await status_is(app, first, "completed")
        async with await AsyncConnection.connect(app.database_url) as connection:
            late = await app.enqueue("pages", {"host": "a"}, connection=connection)
            other = await app.enqueue("pages", {"host": "a"})
            await status_is(app, other, "completed")
        await status_is(app, late, "completed")


async def test_a_sweep_finds_what_was_not_announced(app: Regente, pages: Pages, sql: Sql) -> None:
    """I8: the process died between the commit and the look at the lane."""
    pages.gate.set()
    sql.execute(
        "INSERT INTO regente.tasks (pipeline, args, lane, run_at, lane_run_at) "
        "SELECT 'pages', '{\"host\": \"a\"}', 'a', regente.in_lane(), regente.clock() "
        "FROM generate_series(1, 5)"
    )
    await app.run(until_idle=True)
    assert (await app.counts())["completed"] == 5
    assert pages.most["a"] <= 2


async def test_what_comes_back_waits_in_its_lane(
    app: Regente, registry: Registry, sql: Sql, pages: Pages
) -> None:
    """O12: a retry, a sleep, an operator's retry of a dead letter; each stays in the lane."""
    seen: list[int] = []

    @registry.pipeline("flaky", lane=lambda args: "a")
    async def flaky(task: Task[Args]) -> None:
        seen.append(task.attempt)
        await task.sleep(0.01)
        if task.args["fails"] > task.attempt:
            raise RuntimeError("not yet")

    registry.pipeline("never", lane=lambda args: "a")(fails)
    ids = [await app.enqueue("flaky", {"fails": 0}), await app.enqueue("never", {})]
    await app.run(until_idle=True)
    assert [(await app.get(task_id)).status for task_id in ids] == ["completed", "failed"]
    assert seen == [1, 2]
    await app.retry(ids[1])
    assert (await app.get(ids[1])).lane == "a"
    assert task_row(sql, ids[1])["run_at"].year == 3500
    await app.run(until_idle=True)
    assert events_of(sql, ids[1]).count("task_failed") == 2


async def fails(task: Task[Args]) -> None:
    from regente import Fatal

    raise Fatal("always")


async def test_slots_are_shared_with_tasks_without_a_lane(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q2: neither kind starves the other, in one slot or in many."""
    order: list[str] = []

    @registry.pipeline("both")
    async def both(task: Task[Args]) -> None:
        order.append(task.args["kind"])

    await app.enqueue_many("both", [{"kind": "plain"} for _ in range(300)])
    await app.enqueue_many("both", [{"kind": "laned"} for _ in range(300)], lane="a")
    await app.run(until_idle=True, concurrency=1)
    assert len(order) == 600
    assert 60 <= order[:200].count("laned") <= 140


async def test_a_signal_wakes_a_task_in_a_lane(app: Regente, registry: Registry) -> None:
    """O12: it waits without a place in the lane."""

    @registry.pipeline("asks", lane=lambda args: "a", lane_limits=LaneLimits(concurrency=1))
    async def asks(task: Task[Args]) -> Any:
        return await task.wait_for("answer")

    first, second = await app.enqueue_many("asks", [{}, {}])
    async with running(app):
        for task_id in (second, first):
            await eventually_async(functools.partial(waits, app, task_id))
            await app.signal(task_id, "answer", {"to": task_id})
            await status_is(app, task_id, "completed")
    assert (await app.get(first)).result == {"to": first}


async def waits(app: Regente, task_id: int) -> bool:
    return bool(await app.waiting(task_id=task_id))
