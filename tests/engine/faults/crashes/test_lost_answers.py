"""A statement whose answer was lost is sent again without harm (F7; I1, I2, I6, I7, I8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from regente import Regente, Task, Transient
from regente.engine import database
from regente.engine.pipeline import Registry
from regente.engine.retry import Retry
from tests.support.audit import audit
from tests.support.eventually import eventually_async
from tests.support.running import runner_in
from tests.support.sinks import ARRIVE, create_sink, sink_arrivals

Rows = list[tuple[Any, ...]]
STATEMENTS = [
    "register_runner",
    "claim",
    "record_steps",
    "settle",
    "finish",
    "review_batches",
    "mark_lost_runners",
    "reap",
]


@pytest.fixture(autouse=True)
def pipelines(registry: Registry) -> None:
    @registry.pipeline("job", retry=Retry(max_attempts=2, first=0.01))
    async def job(task: Task) -> str:
        await task.step("FIRST", number)
        if task.tries == 0:
            raise Transient("once")
        async with task.transaction("STORE") as connection:
            await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))
        return "done"


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_statement_whose_answer_was_lost_is_repeated_without_harm(
    statement: str, app: Regente, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F7: I1, I2, I6 and I7; I8: no task waits for stall detection."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        create_sink(connection)
        ids = await app.enqueue_many("job", [{} for _ in range(5)], batch="b")
        lose_first_answer(monkeypatch, statement)
        async with runner_in(app):
            await eventually_async(lambda: batch_is_completed(app))
        for task_id in ids:
            task = await app.get(task_id)
            assert (task.status, task.tries, task.crashes) == ("completed", 1, 0)
        assert sink_arrivals(connection) == {(task_id, "STORE"): 1 for task_id in ids}
        assert audit(connection) == []


async def number() -> int:
    return 1


def lose_first_answer(monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    real = database.fetch_on
    lost: list[str] = []

    async def fetch_on(connection: Any, name: str, params: Mapping[str, Any]) -> Rows:
        rows = await real(connection, name, params)
        if name == statement and not lost:
            lost.append(name)
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return rows

    monkeypatch.setattr(database, "fetch_on", fetch_on)


async def batch_is_completed(app: Regente) -> bool:
    return (await app.batch("b")).status == "completed"
