"""A short run through every use that the engine makes of a database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import psycopg
import pytest
from pydantic import BaseModel

from regente import Fatal, Regente, Retry, Task, Throttled, Transient
from regente.engine.database import TaskConnection
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.support.eventually import eventually_async

SETTINGS = Settings(
    sweep_seconds=0.2, batches_seconds=0.2, schedules_seconds=0.2, drain_seconds=5.0
)


class Typed(BaseModel):
    n: int


def pipelines() -> Registry:
    registry = Registry()

    @registry.pipeline("mixed", retry=Retry(max_attempts=2, first=0.01))
    async def mixed(task: Task) -> dict[str, object]:
        kind = task.args["kind"]
        doubled = await task.step("DOUBLE", lambda: task.args["n"] * 2)
        parts = await task.each("PARTS", [1, 2, 3], lambda part: part * doubled, concurrency=2)
        stored = await task.transact("STORE", store, task.id)
        async with task.transaction("NOTE") as connection:
            await connection.execute("INSERT INTO sink (task_id) VALUES (%s)", (-task.id,))
        if kind == "transient" and task.tries == 0:
            raise Transient("once")
        if kind == "throttled" and not await task.done("sleep"):
            if task.attempt == 1:
                raise Throttled("slow down", retry_after=0.05)
            await task.sleep(0.05)
        if kind == "fatal":
            task.snapshot("page.html", "<html>")
            raise Fatal("broken", code="LAYOUT")
        return {"doubled": doubled, "parts": parts, "stored": stored}

    @registry.pipeline("typed", args=Typed)
    async def typed(task: Task[Typed]) -> int:
        return task.args.n

    @registry.pipeline("endless")
    async def endless(task: Task) -> None:
        await asyncio.Event().wait()

    return registry


async def store(connection: TaskConnection, task_id: int) -> int:
    cursor = await connection.execute(
        "INSERT INTO sink (task_id) VALUES (%s) RETURNING id", (task_id,)
    )
    return int((await cursor.fetchone())[0])


@contextlib.asynccontextmanager
async def running(app: Regente) -> AsyncIterator[None]:
    runner = asyncio.create_task(app.run())
    try:
        yield
    finally:
        app.stop_running()
        app.stop_running()
        await runner


async def take_tour(url: str) -> None:
    async with Regente(url, settings=SETTINGS, pipelines=pipelines()) as app:
        async with app.database.transaction() as connection:
            await connection.execute("CREATE TABLE sink (id serial, task_id bigint)")
        async with running(app):
            await _mixed_batch(app)
            await _cancel_running(app)
            await _schedule_and_pause(app)
            await _from_sql(app)
            await _bulk(app)
        await _nothing_twice(app)


async def _mixed_batch(app: Regente) -> None:
    kinds = ["plain", "transient", "throttled", "fatal"]
    for n, kind in enumerate(kinds):
        await app.enqueue("mixed", {"kind": kind, "n": n}, batch="tour", key=kind, priority=n)
    await eventually_async(lambda: _batch_is(app, "completed"), within_seconds=30)
    batch = await app.batch("tour")
    assert (batch.completed, batch.failed, batch.balanced) == (3, 1, True)
    dead = (await app.tasks(statuses=["failed"]))[0]
    assert dead.error_code == "LAYOUT"
    failure = (await app.failures(dead.id))[0]
    assert (await app.snapshot(failure["id"], "page.html"))[2] == b"<html>"
    assert (await app.why(dead.id)).code == "DEAD"
    assert await app.reprocess_batch("tour", codes=["LAYOUT"]) == [dead.id]
    await eventually_async(lambda: _batch_is(app, "completed"), within_seconds=30)
    assert await app.discard([dead.id]) == [dead.id]
    assert not (await app.resume_batch("tour")).resumed


async def _batch_is(app: Regente, status: str) -> bool:
    batch = await app.batch("tour")
    return batch.status == status and batch.queued + batch.running == 0


async def _cancel_running(app: Regente) -> None:
    task_id = await app.enqueue("endless", {})

    async def is_(status: str) -> bool:
        return (await app.get(task_id)).status == status

    await eventually_async(lambda: is_("running"))
    assert (await app.why(task_id)).code == "RUNNING"
    assert await app.cancel(task_id) == "canceling"
    await eventually_async(lambda: is_("canceled"))


async def _schedule_and_pause(app: Regente) -> None:
    await app.schedule("nightly", "endless", "0 4 * * *", timezone="America/Sao_Paulo")
    assert [schedule["name"] for schedule in await app.schedules()] == ["nightly"]
    await app.pause("mixed")
    task_id = await app.enqueue("mixed", {"kind": "plain", "n": 1})
    assert (await app.why(task_id)).code == "PAUSED"
    await app.resume("mixed")


async def _from_sql(app: Regente) -> None:
    """A checked task from SQL, with a key that becomes free again."""
    async with app.database.transaction() as connection:
        ids = [
            await (
                await connection.execute(
                    "SELECT regente.enqueue('typed', '{\"n\": 1}', key => 'k',"
                    " \"unique\" => %s, on_conflict => 'replace')",
                    [unique],
                )
            ).fetchone()
            for unique in ("until_done", "1 second", "ever")
        ]
    assert ids[0] == ids[1] == ids[2]
    with pytest.raises(psycopg.Error, match="n: a value of the type integer"):
        async with app.database.transaction() as connection:
            await connection.execute("SELECT regente.enqueue('typed', '{\"n\": \"x\"}')")
    assert ids[0] is not None
    assert await app.wait(ids[0][0], timeout=60) == 1


async def _bulk(app: Regente) -> None:
    ids = await app.enqueue_many("mixed", [{"kind": "plain", "n": n} for n in range(300)])
    assert ids == sorted(set(ids))

    async def all_done() -> bool:
        return (await app.counts("mixed"))["completed"] == 304

    await eventually_async(all_done, within_seconds=60)


async def _nothing_twice(app: Regente) -> None:
    async with app.database.transaction() as connection:
        rows = await (
            await connection.execute("SELECT count(*), count(DISTINCT task_id) FROM sink")
        ).fetchone()
        wrong = await connection.execute(
            "SELECT t.id FROM regente.tasks t LEFT JOIN sink s ON s.task_id = t.id "
            "WHERE t.pipeline = 'mixed' AND t.status = 'completed' "
            "AND (t.result ->> 'stored')::int IS DISTINCT FROM s.id"
        )
        assert await wrong.fetchall() == []
    assert rows == (610, 610)
    seen, position = 0, "0-0"
    while events := await app.feed(position, limit=500):
        seen, position = seen + len(events), events[-1].position
    async with app.database.transaction() as connection:
        row = await (await connection.execute("SELECT count(*) FROM regente.events")).fetchone()
    assert row is not None
    assert seen == row[0]
