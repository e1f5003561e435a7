"""Signals: a task waits for one without a slot, in both orders, and receives each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from regente import (
    IllegalTransition,
    InvalidInput,
    NotFound,
    Regente,
    Retry,
    SignalTimeout,
    Transient,
    hours,
)
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.task_store import TaskStore
from tests.engine.helpers import (
    Clock,
    Sql,
    column,
    events_of,
    one,
    running,
    status_is,
    task_row,
    until,
)

FAST = Retry(max_attempts=3, first=0.01, jitter=False)


class Approval(BaseModel):
    approved: bool
    by: str = "ana"


@pytest.fixture
def approving(registry: Registry) -> Registry:
    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[Any]:
        answer = await task.wait_for("approval", Approval, timeout=hours(1))
        return [answer.approved, answer.by]

    return registry


def waits(sql: Sql, task_id: int) -> Callable[[], bool]:
    return lambda: "task_waiting" in events_of(sql, task_id)


def completed(sql: Sql) -> int:
    counted = "SELECT count(*) AS n FROM regente.tasks WHERE status = 'completed'"
    return int(one(sql, counted)["n"])


async def test_a_waiting_task_has_no_slot_and_continues_with_the_payload(
    app: Regente, sql: Sql, approving: Registry
) -> None:
    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(waits(sql, task_id))
        row = task_row(sql, task_id)
        assert (row["status"], row["runner_id"]) == ("queued", None)
        await app.signal(task_id, "approval", {"approved": True})
        await status_is(app, task_id, "completed")
    assert task_row(sql, task_id)["result"] == [True, "ana"]
    assert events_of(sql, task_id).count("task_signal_received") == 1
    assert task_row(sql, task_id)["tries"] == 0


async def test_a_signal_that_comes_before_the_wait_is_received(
    app: Regente, sql: Sql, approving: Registry
) -> None:
    task_id = await app.enqueue("p", {})
    await app.signal(task_id, "approval", {"approved": False, "by": "rui"})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["result"] == [False, "rui"]
    assert "task_waiting" not in events_of(sql, task_id)


async def test_each_wait_receives_one_signal_in_the_order_sent(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[int]:
        return [await task.wait_for("number", int) for _ in range(3)]

    task_id = await app.enqueue("p", {})
    for number in (3, 1, 2):
        await app.signal(task_id, "number", number)
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["result"] == [3, 1, 2]


async def test_concurrent_waits_share_no_signal(app: Regente, sql: Sql, registry: Registry) -> None:
    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[int]:
        return sorted(await asyncio.gather(*(task.wait_for("number", int) for _ in range(4))))

    task_id = await app.enqueue("p", {})
    for number in range(4):
        await app.signal(task_id, "number", number)
    async with running(app):
        await status_is(app, task_id, "completed")
    assert task_row(sql, task_id)["result"] == [0, 1, 2, 3]


async def test_a_replay_receives_what_was_received_first(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    seen: list[Any] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        seen.append(await task.wait_for("number"))
        if task.tries == 0:
            raise Transient("once")

    task_id = await app.enqueue("p", {})
    payload = {"b": 1e22, "a": [1, 1.0, None], "ã": "\\u0000"}
    await app.signal(task_id, "number", payload)
    await app.signal(task_id, "number", "another")
    await app.run(until_idle=True)
    assert seen == [payload, payload]
    assert [list(one) for one in seen] == [["b", "a", "ã"]] * 2
    assert isinstance(seen[1]["b"], float)


async def test_a_wait_that_is_over_raises_at_every_attempt(
    app: Regente, sql: Sql, registry: Registry, clock: Clock
) -> None:
    """The signal that comes too late is not received by a later attempt of the same wait."""
    missed: list[str] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> Any:
        try:
            await task.wait_for("approval", timeout=hours(1))
        except SignalTimeout as error:
            missed.append(error.code)
        if task.tries == 0:
            await app.signal(task.id, "approval", "late")
            raise Transient("once")
        return await task.wait_for("approval")

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(waits(sql, task_id))
        clock.advance(hours=1.01)
        await status_is(app, task_id, "completed")
    assert missed == ["SIGNAL_TIMEOUT", "SIGNAL_TIMEOUT"]
    assert task_row(sql, task_id)["result"] == "late"
    assert events_of(sql, task_id).count("task_signal_missed") == 1


async def test_a_wait_that_is_over_returns_its_default(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> Any:
        return await task.wait_for("approval", bool, timeout=0, default=False)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["result"] is False


async def test_a_timeout_that_is_not_caught_is_a_dead_letter(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> Any:
        await task.wait_for("approval", timeout=0)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["error_code"], row["tries"]) == ("failed", "SIGNAL_TIMEOUT", 1)


async def test_a_payload_of_another_type_is_refused_and_the_wait_goes_on(
    app: Regente, sql: Sql, approving: Registry
) -> None:
    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(waits(sql, task_id))
        await app.signal(task_id, "approval", {"approved": "perhaps"})
        await until(lambda: events_of(sql, task_id).count("task_waiting") == 2)
        (wait,) = await app.waiting()
        assert "approved" in (wait.refused or "")
        await app.signal(task_id, "approval", {"approved": True})
        await status_is(app, task_id, "completed")
    assert events_of(sql, task_id).count("task_signal_refused") == 1


async def test_a_key_makes_a_repeated_signal_one(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    @registry.pipeline("p")
    async def run(task: Task) -> list[int]:
        return [await task.wait_for("n", int), await task.wait_for("n", int)]

    task_id = await app.enqueue("p", {})
    first = await app.signal(task_id, "n", 1, key="order 7")
    assert await app.signal(task_id, "n", 1, key="order 7") == first
    assert await app.signal(task_id, "n", 2) != first
    await app.run(until_idle=True)
    assert task_row(sql, task_id)["result"] == [1, 2]
    assert await app.signal(task_id, "n", 1, key="order 7") == first  # also when it is too late


async def test_signals_to_tasks_that_do_not_exist_or_have_ended_are_refused(
    app: Regente, approving: Registry
) -> None:
    with pytest.raises(NotFound):
        await app.signal(4711, "approval", {})
    task_id = await app.enqueue("p", {})
    await app.cancel(task_id)
    with pytest.raises(IllegalTransition, match="canceled"):
        await app.signal(task_id, "approval", {})


@pytest.mark.parametrize("name", ["", "x" * 101, "\x00", 7])
async def test_names_that_are_no_names_are_refused(
    app: Regente, approving: Registry, name: Any
) -> None:
    task_id = await app.enqueue("p", {})
    with pytest.raises(InvalidInput):
        await app.signal(task_id, name, {})


async def test_a_task_does_not_collect_signals_without_end(
    app: Regente, sql: Sql, approving: Registry
) -> None:
    task_id = await app.enqueue("p", {})
    for number in range(1000):
        sql.execute("SELECT regente.signal(%s, 'n', %s)", (task_id, str(number)))
    with pytest.raises(InvalidInput, match="1,000"):
        await app.signal(task_id, "n", {})


async def test_why_names_the_signal_and_waiting_lists_it(
    app: Regente, sql: Sql, approving: Registry
) -> None:
    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(waits(sql, task_id))
    answer = await app.why(task_id)
    assert answer.code == "WAITING_FOR_SIGNAL"
    assert f"regente tasks signal {task_id} approval" in answer.summary
    (wait,) = await app.waiting(signal="approval")
    assert (wait.task_id, wait.signal, wait.step) == (task_id, "approval", "signal:approval")
    await app.cancel(task_id)
    assert await app.waiting() == []


async def test_a_canceled_task_no_longer_waits(app: Regente, sql: Sql, approving: Registry) -> None:
    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(waits(sql, task_id))
        assert await app.cancel(task_id) == "canceled"


async def test_a_signal_can_be_sent_in_sql_and_within_a_transaction(
    app: Regente, sql: Sql, approving: Registry, database_url: str
) -> None:
    """Nothing is received before the sender's transaction commits; rolled back, it was not sent."""
    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(waits(sql, task_id))
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            await app.signal(task_id, "approval", {"approved": False}, connection=connection)
            await connection.rollback()
        sql.execute("SELECT regente.signal(%s, 'approval', '{\"approved\": true}')", (task_id,))
        await status_is(app, task_id, "completed")
    assert task_row(sql, task_id)["result"] == [True, "ana"]


async def test_a_signal_while_the_attempt_begins_to_wait_is_not_missed(
    app: Regente, sql: Sql, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race: it comes after the look and before the task is queued again."""
    look = TaskStore.look_for_signal

    async def sent_meanwhile(self: TaskStore, claim: Any, *what: Any) -> Any:
        found = await look(self, claim, *what)
        if claim.attempt == 1:
            await app.signal(claim.id, "go", 1)
        return found

    monkeypatch.setattr(TaskStore, "look_for_signal", sent_meanwhile)

    @registry.pipeline("p")
    async def run(task: Task) -> int:
        return int(await task.wait_for("go", int))

    task_id = await app.enqueue("p", {})
    async with running(app):
        await status_is(app, task_id, "completed")
    assert task_row(sql, task_id)["attempt"] == 2


async def test_signals_sent_against_waiting_tasks_are_all_received_once(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    """I2: 40 tasks, each signaled five times while it runs, waits and is woken."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[int]:
        return [await task.wait_for("n", int) for _ in range(5)]

    ids = await app.enqueue_many("p", [{}] * 40)

    async def send(task_id: int) -> None:
        for number in range(5):
            await app.signal(task_id, "n", number)

    async with running(app):
        await asyncio.gather(*map(send, ids))
        await until(lambda: completed(sql) == 40)
    results = column(sql, "SELECT result FROM regente.tasks")
    assert results == [[0, 1, 2, 3, 4]] * 40


async def test_a_locked_row_holds_up_its_own_wait_only(
    app: Regente, sql: Sql, registry: Registry, database_url: str
) -> None:
    """A session that keeps the row of one task delays neither its neighbours nor the runner."""
    ready, proceed = asyncio.Event(), asyncio.Event()

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        if not ready.is_set():
            ready.set()
            await proceed.wait()
            await task.wait_for("go", timeout=0, default=None)

    first = await app.enqueue("p", {})
    async with running(app):
        await ready.wait()
        with psycopg.connect(database_url) as holder:
            holder.execute("SELECT FROM regente.tasks WHERE id = %s FOR UPDATE", (first,))
            proceed.set()
            await app.enqueue_many("p", [{}] * 20)
            await until(lambda: completed(sql) == 20)
        await status_is(app, first, "completed")
