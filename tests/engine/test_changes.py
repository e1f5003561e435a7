"""Changes to tasks that wait, with an event that names what changed and who did it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from regente import IllegalTransition, InvalidArgs, InvalidInput, NotFound, Regente, days
from regente.engine.holding import HELD
from regente.engine.pipeline import Registry
from regente.engine.registration import register_pipelines
from regente.engine.task import Task
from regente.settings import Settings
from tests.engine.helpers import (
    Sql,
    SqlRunner,
    column,
    events_of,
    one,
    running,
    status_is,
    task_row,
    until,
)
from tests.engine.test_races import loses

LATER = datetime(2040, 1, 1, tzinfo=UTC)
SOONER = datetime(2035, 1, 1, tzinfo=UTC)


class Page(BaseModel):
    host: str
    depth: int = 1


@pytest.fixture(autouse=True)
def served(registry: Registry) -> None:
    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> Any:
        return task.args.get("n")

    @registry.pipeline("pages", args=Page, lane=lambda args: args.host)
    async def pages(task: Task[Page]) -> str:
        return task.args.host

    @registry.pipeline("asks")
    async def asks(task: Task[dict[str, Any]]) -> Any:
        return await task.wait_for("approval", timeout=days(2), default=None)


def change_of(sql: Sql, task_id: int) -> dict[str, Any]:
    row = one(
        sql,
        "SELECT details FROM regente.events WHERE event = 'task_changed' AND task_id = %s"
        " ORDER BY id DESC LIMIT 1",
        task_id,
    )
    return dict(row["details"])


async def test_a_task_that_waits_is_changed_with_its_author(app: Regente, sql: Sql) -> None:
    task_id = await app.enqueue("p", {"n": 1, "secret": "s"}, run_at=LATER)
    changed = await app.change(
        task_id, priority=7, run_at=SOONER, max_attempts=9, args={"n": 2, "secret": "t"}, by="ana"
    )
    assert (changed.priority, changed.run_at, changed.max_attempts) == (7, SOONER, 9)
    assert changed.args == {"n": 2, "secret": "t"}
    told = change_of(sql, task_id)
    assert told["by"] == "ana"
    assert told["changes"]["priority"] == {"from": 0, "to": 7}
    assert told["changes"]["max_attempts"] == {"from": None, "to": 9}
    assert told["changes"]["args"] == ["n", "secret"]
    assert [datetime.fromisoformat(told["changes"]["run_at"][name]) for name in ("from", "to")] == [
        LATER,
        SOONER,
    ]


async def test_what_is_not_named_stays(app: Regente, sql: Sql) -> None:
    task_id = await app.enqueue("p", {"n": 1}, run_at=LATER, priority=2, max_attempts=4, key="k")
    before = task_row(sql, task_id)
    await app.change(task_id, priority=3)
    assert task_row(sql, task_id) == {**before, "priority": 3}
    assert change_of(sql, task_id) == {"changes": {"priority": {"from": 2, "to": 3}}}
    await app.change(task_id, max_attempts=None)
    assert task_row(sql, task_id)["max_attempts"] is None


async def test_a_change_to_the_same_is_no_event(app: Regente, sql: Sql) -> None:
    task_id = await app.enqueue("p", {"n": 1}, priority=2)
    await app.change(task_id, priority=2, args={"n": 1})
    assert events_of(sql, task_id) == ["task_queued"]


async def test_a_draft_is_changed_and_stays_one(app: Regente, sql: Sql) -> None:
    task_id = await app.enqueue("p", {"n": 1}, draft=True)
    await app.change(task_id, priority=2, run_at=LATER, args={"n": 2})
    assert task_row(sql, task_id)["status"] == "draft"
    await app.queue([task_id])
    assert task_row(sql, task_id)["run_at"] == LATER


async def test_a_task_that_is_due_now_is_started(app: Regente, no_polls: None) -> None:
    """By its hint: no runner polls here. At a new priority, too."""
    task_id = await app.enqueue("p", {"n": 1}, run_at=LATER)
    async with running(app, ["p"]):
        await until(lambda: app._runner is not None)
        await status_is(app, task_id, "queued")
        await app.change(task_id, run_at=None, priority=5)
        await status_is(app, task_id, "completed")


async def test_a_task_is_started_in_its_new_lane(app: Regente, sql: Sql, no_polls: None) -> None:
    task_id = await app.enqueue("p", {"n": 1}, run_at=LATER)
    async with running(app, ["p"]):
        await status_is(app, task_id, "queued")
        await app.change(task_id, lane="a", run_at=None)
        await status_is(app, task_id, "completed")
    assert column(sql, "SELECT name FROM regente.lanes") == ["a"]


async def test_other_arguments_have_their_own_lane(app: Regente, sql: Sql) -> None:
    """The limits of the former host do not count for them any more."""
    task_id = await app.enqueue("pages", {"host": "a"})
    await app.change(task_id, args={"host": "b"})
    row = task_row(sql, task_id)
    assert (row["lane"], row["args"]) == ("b", {"host": "b", "depth": 1})
    assert change_of(sql, task_id)["changes"]["lane"] == {"from": "a", "to": "b"}
    await app.change(task_id, args={"host": "c"}, lane=None)
    assert task_row(sql, task_id)["lane"] is None


async def test_arguments_are_checked_as_those_of_a_new_task(app: Regente, sql: Sql) -> None:
    task_id = await app.enqueue("pages", {"host": "a"})
    with pytest.raises(InvalidArgs, match="depth"):
        await app.change(task_id, args={"host": "a", "depth": "deep"})
    with pytest.raises(InvalidArgs, match="JSON object"):
        await app.change(await app.enqueue("p"), args=[1])
    assert events_of(sql, task_id) == ["task_queued"]


async def test_a_process_without_the_code_checks_by_what_runners_registered(
    app: Regente, sql: Sql, database_url: str, registry: Registry, settings: Settings
) -> None:
    """As the API's process does."""
    await register_pipelines(app.database.fetch, registry.select(None))
    task_id = await app.enqueue("pages", {"host": "a"})
    async with Regente(database_url, settings=settings, pipelines=Registry()) as other:
        with pytest.raises(InvalidArgs, match="depth: a value of the type integer"):
            await other.change(task_id, args={"host": "b", "depth": "deep"}, lane="b")
        with pytest.raises(InvalidInput, match="give the lane, too"):
            await other.change(task_id, args={"host": "b"})
        changed = await other.change(task_id, args={"host": "b"}, lane="b")
    assert (changed.args, changed.lane) == ({"host": "b"}, "b")


async def test_a_started_task_keeps_its_arguments(app: Regente, sql: Sql) -> None:
    """Its steps were recorded for them. Its place in the queue may change."""
    task_id = await app.enqueue("p", {"n": 1})
    SqlRunner.register(sql, ["p"]).claim()
    with pytest.raises(IllegalTransition, match="is running: only queued tasks and drafts"):
        await app.change(task_id, priority=3)
    sql.execute("UPDATE regente.tasks SET status = 'queued', runner_id = NULL")
    with pytest.raises(IllegalTransition, match="has started: its steps"):
        await app.change(task_id, args={"n": 2})
    assert (await app.change(task_id, priority=3)).priority == 3


async def test_a_held_task_keeps_its_time(app: Regente, sql: Sql) -> None:
    """It is released, or woken by what it waits for."""
    task_id = await app.enqueue("p", {"n": 1}, run_at=HELD)
    with pytest.raises(IllegalTransition, match="is held or waits"):
        await app.change(task_id, run_at=None)
    await app.change(task_id, priority=3, args={"n": 2})
    row = task_row(sql, task_id)
    assert (row["run_at"], row["priority"], row["args"]) == (HELD, 3, {"n": 2})


async def test_a_task_that_waits_for_a_signal_keeps_its_time(app: Regente, sql: Sql) -> None:
    """Which is the end of its wait."""
    task_id = await app.enqueue("asks")
    async with running(app):
        await until(lambda: "task_waiting" in events_of(sql, task_id))
    before = task_row(sql, task_id)["run_at"]
    with pytest.raises(IllegalTransition, match="is held or waits"):
        await app.change(task_id, run_at=LATER)
    await app.change(task_id, priority=3)
    row = task_row(sql, task_id)
    assert (row["run_at"], row["priority"]) == (before, 3)


@pytest.mark.parametrize("status", ["completed", "failed", "canceled", "skipped"])
async def test_an_ended_task_is_not_changed(app: Regente, sql: Sql, status: str) -> None:
    task_id = await app.enqueue("p")
    SqlRunner.register(sql, ["p"]).claim()
    sql.execute(
        "UPDATE regente.tasks SET status = %s, runner_id = NULL, finished_at = regente.clock()",
        (status,),
    )
    with pytest.raises(IllegalTransition, match=f"is {status}"):
        await app.change(task_id, priority=3)


async def test_what_is_refused(app: Regente) -> None:
    task_id = await app.enqueue("p")
    with pytest.raises(NotFound):
        await app.change(99, priority=1)
    with pytest.raises(InvalidInput, match="what is to be changed"):
        await app.change(task_id)
    with pytest.raises(InvalidInput, match="priority"):
        await app.change(task_id, priority=99_999)
    with pytest.raises(InvalidInput, match="time zone"):
        await app.change(task_id, run_at=datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidInput, match="lane"):
        await app.change(task_id, lane="")
    with pytest.raises(InvalidInput, match="max_attempts"):
        await app.change_many([task_id], max_attempts=0)
    with pytest.raises(InvalidInput, match="not an id"):
        await app.change_many([-1], priority=1)


async def test_many_are_changed_and_the_others_left_out(app: Regente, sql: Sql) -> None:
    ids = await app.enqueue_many("p", [{} for _ in range(600)])
    await app.cancel(ids[3])
    changed = await app.change_many([*ids, 10_000, ids[0]], priority=4, by="ana")
    assert changed == [*ids[:3], *ids[4:]]
    assert column(sql, "SELECT count(*) FROM regente.tasks WHERE priority = 4") == [599]
    told = "SELECT count(*) FROM regente.events WHERE event = 'task_changed'"
    assert column(sql, told) == [599]


# Races: the winner holds the lock.


async def test_a_task_that_is_claimed_meanwhile_is_not_changed(
    app: Regente, sql: Sql, holder: Sql
) -> None:
    await app.enqueue("p", {"n": 1})
    runner = SqlRunner.register(sql, ["p"])
    assert SqlRunner(holder, runner.id, ["p"]).claim() == [1]
    lost = await loses(sql, holder, app.change(1, args={"n": 2}, priority=3))
    assert isinstance(lost, IllegalTransition)
    row = task_row(sql, 1)
    assert (row["args"], row["priority"], row["status"]) == ({"n": 1}, 0, "running")
    assert "task_changed" not in events_of(sql, 1)


async def test_a_canceled_task_is_not_changed(app: Regente, sql: Sql, holder: Sql) -> None:
    await app.enqueue("p")
    holder.execute(
        "UPDATE regente.tasks SET status = 'canceled', finished_at = regente.clock() WHERE id = 1"
    )
    assert isinstance(await loses(sql, holder, app.change(1, priority=3)), IllegalTransition)
    assert task_row(sql, 1)["priority"] == 0


async def test_of_two_changes_the_second_sees_the_first(
    app: Regente, sql: Sql, holder: Sql
) -> None:
    await app.enqueue("p")
    holder.execute("SELECT regente.change_task(1, '{\"priority\": 3}')")
    changed = await loses(sql, holder, app.change(1, priority=5))
    assert changed.priority == 5
    assert change_of(sql, 1)["changes"]["priority"] == {"from": 3, "to": 5}


async def test_a_change_of_many_waits_for_a_locked_task(
    app: Regente, sql: Sql, holder: Sql
) -> None:
    ids = await app.enqueue_many("p", [{}, {}])
    holder.execute("SELECT FROM regente.tasks WHERE id = %s FOR UPDATE", (ids[1],))
    assert await loses(sql, holder, app.change_many(ids, priority=3)) == ids
