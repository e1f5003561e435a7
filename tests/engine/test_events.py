"""Folding a task's events gives its row; the feed has each event once, in a fixed order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import psycopg
import pytest

from regente import Fatal, InvalidInput, Regente, Retry, Skip, Throttled, Transient
from regente.engine.models import Event
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog.reaper import Reaper
from tests.engine.helpers import Sql, SqlRunner, column, many, one, running, until

AFTER = {
    "task_drafted": "draft",
    "task_queued": "queued",
    "task_claimed": "running",
    "task_completed": "completed",
    "task_skipped": "skipped",
    "task_failed": "failed",
    "task_canceled": "canceled",
    "task_discarded": "canceled",
    **dict.fromkeys(
        (
            "task_retried",
            "task_sleeping",
            "task_throttled",
            "task_handed_back",
            "task_recovered",
            "task_stalled",
            "task_requeued",
        ),
        "queued",
    ),
}


def fold(events: list[dict[str, Any]]) -> tuple[str | None, int]:
    """The last status and attempt by the events alone."""
    status, attempt = None, 0
    for event in events:
        status = AFTER.get(event["event"], status)
        if event["event"] == "task_claimed":
            assert event["attempt"] == attempt + 1, "fences rise by one"
            attempt = event["attempt"]
    return status, attempt


async def test_folding_the_events_of_every_task_gives_its_row(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I6: a mixed workload with every outcome."""

    errors: dict[str, tuple[int, Exception]] = {
        "fail": (9, Fatal("no")),
        "skip": (9, Skip("no")),
        "retry": (1, Transient("once")),
        "exhaust": (9, Transient("always")),
        "throttle": (2, Throttled(retry_after=0.01)),
    }

    @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01))
    async def run(task: Task[dict[str, Any]]) -> None:
        last_attempt, error = errors.get(task.args["do"], (0, None))
        if error is not None and task.attempt <= last_attempt:
            raise error
        match task.args["do"]:
            case "sleep":
                await task.sleep(0.01)
            case "wait":
                await asyncio.Event().wait()
            case "step":
                await task.step("A", lambda: 1)
                await task.event("own_event")

    kinds = ["ok", "fail", "skip", "retry", "exhaust", "throttle", "sleep", "step"]
    ids = {kind: await app.enqueue_many("p", [{"do": kind}] * 5) for kind in kinds}
    drafts = await app.enqueue_many("p", [{"do": "ok"}] * 4, draft=True)
    sql_runner = SqlRunner.register(sql, ["p"])
    sql_runner.claim(3)
    sql_runner.expire_lease()
    await Reaper(app.database, 60, 3, lambda _: None).run_once()
    await app.run(until_idle=True)
    await app.queue(drafts[:2])
    await app.cancel(drafts[0])
    await app.retry_many(ids["skip"][:2])
    await app.discard(ids["fail"][:2])
    waiting = await app.enqueue_many("p", [{"do": "wait"}] * 4)
    async with running(app):
        await until(lambda: app._runner is not None and app._runner.running_count >= 4)
        await app.cancel_many(waiting[:2])
        await until(
            lambda: (
                one(sql, "SELECT count(*) FROM regente.tasks WHERE status = 'running'")["count"]
                == 2
            )
        )
    rows = many(sql, "SELECT id, status::text, attempt FROM regente.tasks ORDER BY id")
    assert {row["status"] for row in rows} >= {
        "draft",
        "queued",
        "completed",
        "failed",
        "canceled",
        "skipped",
    }
    for row in rows:
        trail = many(
            sql,
            "SELECT event, attempt FROM regente.events WHERE task_id = %s ORDER BY txid, id",
            row["id"],
        )
        assert fold(trail) == (row["status"], row["attempt"]), (row, trail)
    unknown = set(
        column(sql, "SELECT DISTINCT event FROM regente.events WHERE event LIKE 'task\\_%%'")
    ) - set(AFTER)
    assert unknown <= {"task_cancel_requested"}


async def read_all(app: Regente, done: asyncio.Event, limit: int = 50) -> list[Event]:
    """Polls from the last position until the writers are done and no event is left."""
    seen: list[Event] = []
    position = "0-0"
    while True:
        finished = done.is_set()
        page = await app.feed(after=position, limit=limit)
        seen += page
        position = page[-1].position if page else position
        if finished and not page:
            return seen
        await asyncio.sleep(0)


async def test_readers_see_every_event_once_although_writers_commit_out_of_order(
    app: Regente, database_url: str, sql: Sql
) -> None:
    """I11: ids are drawn in one order, committed in another; none is missed, doubled or moved."""
    done = asyncio.Event()
    chance = random.Random(7)

    async def write(number: int) -> None:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            for turn in range(15):
                for _ in range(chance.randint(1, 4)):
                    await connection.execute(
                        "INSERT INTO regente.events (event, details) VALUES ('noise', %s::jsonb)",
                        [f'"{number}-{turn}"'],
                    )
                    await asyncio.sleep(chance.random() * 0.01)
                await (connection.rollback() if chance.random() < 0.2 else connection.commit())

    async def writers() -> None:
        await asyncio.gather(*(write(number) for number in range(8)))
        done.set()

    reading = [asyncio.create_task(read_all(app, done)) for _ in range(3)]
    await writers()
    reports = await asyncio.gather(*reading)
    stored = {row["id"] for row in many(sql, "SELECT id FROM regente.events")}
    first = [event.id for event in reports[0]]
    assert len(first) == len(set(first))
    assert set(first) == stored
    assert [[event.id for event in report] for report in reports] == [first] * 3, (
        "one order for every reader"
    )
    assert first != sorted(first), "they did commit out of order"
    replay = [event.id for event in await app.feed(limit=100_000)]
    assert replay == first, "and the order is final"


async def test_an_open_transaction_holds_back_what_came_after_it(
    app: Regente, sql: Sql, holder: Sql
) -> None:
    """I11: no later event is visible before an earlier one that may still commit."""
    holder.execute("INSERT INTO regente.events (event) VALUES ('early')")
    sql.execute("INSERT INTO regente.events (event) VALUES ('late')")
    assert await app.feed() == []
    holder.commit()
    assert [event.event for event in await app.feed()] == ["early", "late"]


@pytest.mark.parametrize(
    "position",
    ["", "7", "a-b", "1-2-3", "-1-1", "²-1", "99999999999999999999999-1", "1-99999999999999999999"],
)
async def test_an_invalid_position_is_refused(app: Regente, position: str) -> None:
    """F19: an old or broken `Last-Event-ID` is a clear error."""
    with pytest.raises(InvalidInput, match="is not a position in the feed"):
        await app.feed(after=position)


async def test_pages_have_no_gap_and_no_duplicate(app: Regente, registry: Registry) -> None:
    """I11: one at a time or all at once, the same list."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        return None

    await app.enqueue_many("p", [{}] * 10)
    whole = [event.position for event in await app.feed()]
    parts, position = [], "0-0"
    while page := await app.feed(after=position, limit=3):
        position = page[-1].position
        parts += [event.position for event in page]
    assert parts == whole
    assert len(whole) == 10


async def test_a_pipeline_cannot_write_the_engines_events(app: Regente, registry: Registry) -> None:
    """I6: an event `task_completed` of a pipeline would falsify the audit."""

    @registry.pipeline("liar")
    async def liar(task: Task) -> None:
        await task.event("task_completed")

    task_id = await app.enqueue("liar", {})
    await app.run(until_idle=True)
    assert (await app.get(task_id)).error_code == "RESERVED_EVENT"
    assert [event.event for event in await app.task_events(task_id)] == [
        "task_queued",
        "task_claimed",
        "task_failed",
    ]


async def test_events_of_one_transaction_have_rising_times(
    app: Regente, registry: Registry
) -> None:
    """O17: sorted by time alone they are in the order in which they were written."""

    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> None:
        async with task.transaction() as connection:
            for number in range(50):
                await task.event("own_event", connection=connection, number=number)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    events = [one for one in await app.task_events(task_id) if one.event == "own_event"]
    times = [one.at for one in sorted(events, key=lambda one: (one.details or {})["number"])]
    assert len(set(times)) == 50
    assert times == sorted(times)
