"""What is created or written for a task is delivered twice, and takes effect once (F12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from regente import Regente
from regente.engine.outcome import Ended, Failure
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.task_store import Claim, Settlement, TaskStore
from tests.engine.conftest import OpenApp
from tests.engine.helpers import WRITES, Sql, SqlRunner, Write, claims_of, many, one

FAILURE = Failure("fatal", "BROKEN", "beyond repair")
ENDINGS: dict[str, Write] = {
    **WRITES,
    "failure": lambda store, claim: store.settled.write(
        Settlement(claim, Ended("failed", "task_failed", charged=1, failure=FAILURE))
    ),
}
CREATES: dict[str, Callable[[Regente], Awaitable[Any]]] = {
    "task": lambda app: app.enqueue("p", {}, key="k"),
    "tasks": lambda app: app.enqueue_many("p", [{}] * 3, keys=["a", "b", "c"]),
    "many tasks": lambda app: app.enqueue_many(
        "p", [{}] * 2000, keys=[f"{number}" for number in range(2000)], batch="b"
    ),
    "task of a batch": lambda app: app.enqueue("p", {}, key="k", batch="b"),
    "draft": lambda app: app.enqueue("p", {}, key="k", draft=True),
    "batch": lambda app: app.open_batch("b"),
    "schedule": lambda app: app.schedule("s", "p", "0 0 1 1 *"),
}
STATE = """
SELECT (SELECT coalesce(json_agg(to_jsonb(t) - 'heartbeat_at' ORDER BY id), '[]')
        FROM regente.tasks t)::text AS tasks,
       (SELECT coalesce(json_agg(to_jsonb(b) - 'progress_at' ORDER BY id), '[]')
        FROM regente.batches b)::text AS batches,
       (SELECT coalesce(json_agg(to_jsonb(s) ORDER BY name), '[]')
        FROM regente.schedules s)::text AS schedules,
       (SELECT count(*) FROM regente.steps) AS steps,
       (SELECT count(*) FROM regente.failures) AS failures,
       (SELECT count(*) FROM regente.events) AS events
"""


@pytest.fixture(autouse=True)
def pipelines(registry: Registry) -> None:
    @registry.pipeline("p")
    async def run(task: Task) -> None:
        """Never runs."""


@pytest.fixture
async def store(app: Regente, sql: Sql) -> AsyncIterator[TaskStore]:
    opened = TaskStore(app.database, SqlRunner.register(sql, ["p"]).id)
    opened.start()
    yield opened
    await opened.stop()


@pytest.fixture
async def held(store: TaskStore, app: Regente) -> Claim:
    await app.enqueue("p", {}, batch="b")
    return (await claims_of(store, "p", 1))[0]


@pytest.mark.parametrize("name", ENDINGS)
async def test_what_an_attempt_writes_twice_counts_once(
    name: str, store: TaskStore, held: Claim, sql: Sql
) -> None:
    """F12, I2, I5, I6, I9: one after the other, and both at once."""
    assert await ENDINGS[name](store, held)
    once = one(sql, STATE)
    await ENDINGS[name](store, held)
    await asyncio.gather(ENDINGS[name](store, held), ENDINGS[name](store, held))
    assert one(sql, STATE) == once


@pytest.mark.parametrize("name", CREATES)
async def test_what_is_created_twice_is_there_once(
    name: str, app: Regente, open_app: OpenApp, sql: Sql
) -> None:
    """F12, I1, I6, I9: by the same client, and by two at once; each gets the same answer."""
    other = await open_app()
    first = await CREATES[name](app)
    once = one(sql, STATE)
    answers = [await CREATES[name](app)]
    answers += await asyncio.gather(CREATES[name](app), CREATES[name](other))
    assert answers == [first] * 3
    assert one(sql, STATE) == once


@pytest.mark.parametrize("name", CREATES)
async def test_what_two_clients_create_at_once_is_there_once(
    name: str, app: Regente, open_app: OpenApp, sql: Sql
) -> None:
    """F12, I1, I6, I9: the first delivery races with the second."""
    other = await open_app()
    answers = await asyncio.gather(*(CREATES[name](one_of) for one_of in (app, other, app, other)))
    assert answers == [answers[0]] * 4
    tasks = many(sql, "SELECT id, key FROM regente.tasks")
    assert len({task["key"] for task in tasks}) == len(tasks)
    queued = one(
        sql,
        "SELECT count(*) AS count FROM regente.events WHERE event IN ('task_queued', "
        "'task_drafted')",
    )
    assert queued["count"] == len(tasks)
    totals = many(sql, "SELECT total FROM regente.batches WHERE total > 0")
    assert [row["total"] for row in totals] in ([], [len(tasks)])
