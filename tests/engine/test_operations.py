"""Operators' actions on a task in each state: the result, or a refusal that changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from regente import IllegalTransition, InvalidInput, NotFound, Regente
from regente.engine.models import STATUSES
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Sql, column, events_of, task_row
from tests.engine.test_transitions import put


@pytest.fixture(autouse=True)
def known(registry: Registry) -> None:
    @registry.pipeline("p")
    async def p(task: Task) -> None:
        return None


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("draft", "canceled"),
        ("queued", "canceled"),
        ("running", "canceling"),
        ("canceled", "canceled"),
    ],
)
async def test_cancel_where_it_is_possible(
    app: Regente, sql: Sql, status: str, answer: str
) -> None:
    """O12: waiting tasks end at once, a running one is asked to stop; a repetition is no error."""
    task_id = put(sql, status)
    assert await app.cancel(task_id) == answer
    row = task_row(sql, task_id)
    assert row["status"] == ("running" if answer == "canceling" else "canceled")
    assert (row["cancel_requested_at"] is not None) == (answer == "canceling")


@pytest.mark.parametrize("status", ["completed", "failed", "skipped"])
async def test_cancel_of_an_ended_task_is_refused(app: Regente, sql: Sql, status: str) -> None:
    """O2, I5: terminal is final."""
    task_id = put(sql, status)
    with pytest.raises(
        IllegalTransition, match=f"task {task_id} is {status}: there is nothing to cancel"
    ):
        await app.cancel(task_id)
    assert task_row(sql, task_id)["status"] == status
    assert events_of(sql, task_id) == []


@pytest.mark.parametrize(("status", "first"), [("queued", (1, 0)), ("running", (0, 1))])
async def test_a_second_cancel_counts_nothing(
    app: Regente, sql: Sql, status: str, first: tuple[int, int]
) -> None:
    """O12: also while the runner has not ended the task yet."""
    task_id = put(sql, status)
    counts = [await app.cancel_many([task_id]) for _ in range(2)]
    assert [tuple(one.values()) for one in counts] == [first, (0, 0)]


async def test_a_repeated_cancel_writes_one_event(app: Regente, sql: Sql) -> None:
    """I6: one request, one event."""
    task_id = put(sql, "running")
    assert [await app.cancel(task_id), await app.cancel(task_id)] == ["canceling", "canceling"]
    assert events_of(sql, task_id) == ["task_cancel_requested"]


@pytest.mark.parametrize("status", ["failed", "canceled", "skipped"])
async def test_retry_resets_the_tries(app: Regente, sql: Sql, status: str) -> None:
    """I5, S4: only an operator's retry leaves a terminal status."""
    task_id = put(sql, status)
    sql.execute(
        "UPDATE regente.tasks SET tries = 3, crashes = 2, error_code = 'X', error_message "
        "= 'x', attempt = 5"
    )
    await app.retry(task_id)
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"], row["crashes"], row["error_code"], row["finished_at"]) == (
        "queued",
        0,
        0,
        None,
        None,
    )
    assert row["attempt"] == 5, "the fence never goes back"
    assert events_of(sql, task_id) == ["task_requeued"]


@pytest.mark.parametrize("status", ["draft", "queued", "running", "completed"])
async def test_retry_of_anything_else_is_refused(app: Regente, sql: Sql, status: str) -> None:
    """O2, I5: the message names the status and those that can be retried."""
    task_id = put(sql, status)
    with pytest.raises(
        IllegalTransition, match=f"task {task_id} is {status}: only failed, canceled and skipped"
    ):
        await app.retry(task_id)
    assert task_row(sql, task_id)["status"] == status
    assert events_of(sql, task_id) == []


@pytest.mark.parametrize("status", STATUSES)
async def test_discard_takes_dead_letters_only(app: Regente, sql: Sql, status: str) -> None:
    """Z4: discarding moves a dead letter to canceled and leaves everything else alone."""
    task_id = put(sql, status)
    assert await app.discard([task_id]) == ([task_id] if status == "failed" else [])
    assert task_row(sql, task_id)["status"] == ("canceled" if status == "failed" else status)


@pytest.mark.parametrize("status", STATUSES)
async def test_queue_takes_drafts_only(app: Regente, sql: Sql, status: str) -> None:
    """O2, O5: other tasks are unchanged."""
    task_id = put(sql, status)
    assert await app.queue([task_id]) == ([task_id] if status == "draft" else [])
    row = task_row(sql, task_id)
    assert row["status"] == ("queued" if status == "draft" else status)
    if status == "draft":
        assert row["queued_at"] is not None
        assert events_of(sql, task_id) == ["task_queued"]


async def test_actions_on_many_do_what_they_can(app: Regente, sql: Sql) -> None:
    """W5: a mixed selection is no error; the answer names the changed ids."""
    ids = {status: put(sql, status) for status in STATUSES}
    assert await app.cancel_many(list(ids.values())) == {"canceled": 2, "canceling": 1}
    assert sorted(await app.retry_many(list(ids.values()))) == sorted(
        ids[status] for status in ("draft", "queued", "failed", "canceled", "skipped")
    ), "draft and queued were canceled just before"
    assert column(
        sql, "SELECT status::text FROM regente.tasks WHERE id = %s", ids["completed"]
    ) == ["completed"]


@pytest.mark.parametrize("action", ["get", "cancel", "retry", "why"])
async def test_an_unknown_id_is_not_found(app: Regente, action: str) -> None:
    """W5: clear errors."""
    call: Callable[[int], Awaitable[object]] = getattr(app, action)
    with pytest.raises(NotFound, match="there is no task 4711"):
        await call(4711)


@pytest.mark.parametrize("bad", [0, -1, 2**63, "7", True, None, 1.5])
@pytest.mark.parametrize("action", ["get", "cancel", "retry", "why"])
async def test_an_invalid_id_is_refused(app: Regente, action: str, bad: object) -> None:
    """F15: it never reaches the database."""
    call: Callable[[object], Awaitable[object]] = getattr(app, action)
    with pytest.raises(InvalidInput, match="is not an id"):
        await call(bad)


@pytest.mark.parametrize("action", ["cancel_many", "retry_many", "discard", "queue"])
async def test_an_invalid_id_among_many_is_refused(app: Regente, action: str) -> None:
    """F15."""
    call: Callable[[list[object]], Awaitable[object]] = getattr(app, action)
    with pytest.raises(InvalidInput, match="is not an id"):
        await call([1, "7"])
