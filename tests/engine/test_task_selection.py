"""Actions on all tasks that match a filter, and what their preview says before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from regente import InvalidInput, Regente
from regente.engine import task_selection
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.task_selection import Action, TaskSelection
from tests.engine.helpers import Sql, column, many

Act = Callable[[TaskSelection], Awaitable[int]]

ACTIONS: dict[Action, Act] = {
    "cancel": lambda chosen: chosen.cancel(by="ana"),
    "retry": lambda chosen: chosen.retry(by="ana"),
    "discard": lambda chosen: chosen.discard(by="ana"),
    "change": lambda chosen: chosen.change(priority=9, by="ana"),
}
STATES = ("draft", "queued", "running", "completed", "failed", "canceled", "skipped")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pages, the last of them full for some."""
    monkeypatch.setattr(task_selection, "PAGE", 2)


@pytest.fixture(autouse=True)
async def stored(app: Regente, registry: Registry, sql: Sql) -> None:
    """Three tasks of each state and pipeline; those of `p` are in a batch."""

    async def run(task: Task[Any]) -> None: ...

    registry.pipeline("p")(run)
    registry.pipeline("q")(run)
    for pipeline, batch in (("p", "b"), ("q", None)):
        ids = await app.enqueue_many(pipeline, [{}] * 21, batch=batch)
        for number, task_id in enumerate(ids):
            put_into(sql, task_id, STATES[number % 7])


def put_into(sql: Sql, task_id: int, status: str) -> None:
    sql.execute("ALTER TABLE regente.tasks DISABLE TRIGGER USER")
    sql.execute(
        "UPDATE regente.tasks SET status = %(status)s::regente.task_status,"
        " runner_id = CASE WHEN %(status)s = 'running' THEN 7 END,"
        " error_code = CASE WHEN %(status)s = 'failed' THEN 'HTTP_503' END,"
        " finished_at = CASE WHEN %(status)s::regente.task_status >= 'completed'"
        " THEN regente.clock() END WHERE id = %(id)s",
        {"status": status, "id": task_id},
    )
    sql.execute("ALTER TABLE regente.tasks ENABLE TRIGGER USER")


def touched(sql: Sql) -> list[dict[str, Any]]:
    """The tasks with an event of an author, in order."""
    return many(
        sql,
        "SELECT DISTINCT t.id, t.pipeline FROM regente.tasks t"
        " JOIN regente.events e ON e.task_id = t.id WHERE e.details ->> 'by' = 'ana' ORDER BY 1",
    )


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_changes_what_its_preview_said(
    app: Regente, sql: Sql, action: Action
) -> None:
    """Of the pipeline, in the states that the action changes, and no other task."""
    chosen = app.select_tasks(pipeline="p")
    preview = await chosen.preview(action)
    assert (preview.action, preview.total) == (action, 21)
    assert preview.by_status == dict.fromkeys(STATES, 3)
    assert (
        preview.sample
        == sorted(column(sql, "SELECT id FROM regente.tasks WHERE pipeline = 'p'"), reverse=True)[
            :20
        ]
    )
    assert touched(sql) == []
    assert await ACTIONS[action](chosen) == preview.would_change
    found = touched(sql)
    assert len(found) == preview.would_change > 0
    assert {row["pipeline"] for row in found} == {"p"}


async def test_all_conditions_have_to_match(app: Regente) -> None:
    """Each alone, and together."""
    batch = await app.batch("b")

    async def total(**chosen: Any) -> int:
        return (await app.select_tasks(**chosen).preview("cancel")).total

    assert await total(everything=True) == 42
    assert await total(batch_id=batch.id) == 21
    assert await total(code="HTTP_503") == 6
    assert await total(statuses=["queued", "draft"]) == 12
    assert await total(pipeline="q", statuses=["failed"], code="HTTP_503") == 3
    assert await total(pipeline="q", batch_id=batch.id) == 0
    assert await total(statuses=[]) == 0


async def test_an_action_keeps_to_the_states_of_the_filter(app: Regente, sql: Sql) -> None:
    assert await app.select_tasks(statuses=["draft", "completed"]).cancel(by="ana") == 6
    assert await app.select_tasks(statuses=["completed"]).retry(by="ana") == 0
    assert column(sql, "SELECT count(*) FROM regente.tasks WHERE status = 'queued'") == [6]


async def test_what_is_refused(app: Regente, sql: Sql) -> None:
    """An empty filter is a mistake more often than a wish."""
    for wrong, message in (
        ({}, "choose tasks by pipeline"),
        ({"pipeline": None, "statuses": None}, "choose tasks by pipeline"),
        ({"everything": False}, "choose tasks by pipeline"),
        ({"statuses": ["lost"]}, "lost is not a status"),
        ({"pipeline": "a\x00"}, "is not a pipeline"),
        ({"code": 7}, "is not a code"),
        ({"batch_id": 0}, "is not an id"),
        ({"batch_id": "b"}, "is not an id"),
    ):
        with pytest.raises(InvalidInput, match=message):
            app.select_tasks(**wrong)
    with pytest.raises(InvalidInput, match="priority"):
        await app.select_tasks(pipeline="none").change(priority=99_999)
    with pytest.raises(InvalidInput, match="what is to be changed"):
        await app.select_tasks(pipeline="none").change()
    assert touched(sql) == []
