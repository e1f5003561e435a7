"""Keys: for how long one belongs to a task, and what a second task with it gets."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from regente import AlreadyEnqueued, Enqueued, InvalidInput, Regente, Retry, Transient, hours
from regente.engine.holding import HELD
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.uniqueness import OnConflict, Unique
from tests.engine.conftest import OpenApp
from tests.engine.helpers import (
    Clock,
    Sql,
    SqlRunner,
    column,
    events_of,
    many,
    one,
    running,
    status_is,
    task_row,
)
from tests.engine.test_races import loses

LATER = datetime(2040, 1, 1, tzinfo=UTC)

Put = Callable[..., Awaitable[tuple[int, bool]]]


@pytest.fixture(autouse=True)
def served(registry: Registry) -> None:
    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> Any:
        return task.args.get("n")


@pytest.fixture(params=["client", "sql"])
def put(request: pytest.FixtureRequest, app: Regente, sql: Sql) -> Put:
    """Enqueues by the client, or in SQL; the task's id, and whether it is new."""

    async def by_client(
        n: int, unique: Unique = "ever", on_conflict: OnConflict = "return", **options: Any
    ) -> tuple[int, bool]:
        made = await app.enqueue(
            "p", {"n": n}, key="k", unique=unique, on_conflict=on_conflict, **options
        )
        return made.id, made.created

    async def by_sql(
        n: int, unique: Any = "ever", on_conflict: OnConflict = "return", **options: Any
    ) -> tuple[int, bool]:
        given = {"unique": unique if isinstance(unique, str) else f"{unique} seconds"}
        given |= {"on_conflict": on_conflict, **options}
        names = "".join(f', "{name}" => %({name})s' for name in given)
        row = sql.execute(
            f"SELECT * FROM regente.enqueued('p', %(args)s, key => 'k'{names})",
            {"args": json.dumps({"n": n}), **given},
        ).fetchone()
        assert row is not None
        return row["id"], row["created"]

    sql.execute("INSERT INTO regente.pipelines (name) VALUES ('p')")
    return by_client if request.param == "client" else by_sql


def runner(sql: Sql) -> SqlRunner:
    return SqlRunner.register(sql, ["p"])


def finish(sql: Sql) -> None:
    found = runner(sql)
    (task_id,) = found.claim()
    assert found.finish(task_id) == [task_id]


async def test_what_enqueue_returns_is_the_id_and_says_whether_it_is_new(
    app: Regente, sql: Sql
) -> None:
    """I1: a number wherever one was: as JSON, in SQL, in texts, as a key."""
    first = await app.enqueue("p", {}, key="k")
    again = await app.enqueue("p", {}, key="k")
    assert (first.created, again.created) == (True, False)
    assert first == again == first.id == 1
    assert (f"{first}", str(first), json.dumps([first])) == ("1", "1", "[1]")
    assert repr(again) == "Enqueued(id=1, created=False)"
    assert (await app.get(first)).id == 1
    assert one(sql, "SELECT %s::bigint + 1 AS n", first)["n"] == 2
    assert first in {1}
    copied = pickle.loads(pickle.dumps(again))
    assert (type(copied), copied, copied.created) == (Enqueued, 1, False)
    assert type(first.id) is int


async def test_without_a_key_every_task_is_new(app: Regente) -> None:
    made = [await app.enqueue("p"), await app.enqueue("p", batch="b")]
    assert [(one, one.created) for one in made] == [(1, True), (2, True)]


async def test_a_key_is_for_ever_by_default(put: Put, sql: Sql) -> None:
    assert await put(1) == (1, True)
    finish(sql)
    assert (await put(2))[0] == 1
    assert task_row(sql, 1)["args"] == {"n": 1}


async def test_a_key_may_be_free_when_its_task_is_done(put: Put, sql: Sql) -> None:
    """The former task stays, without the key, and its events tell it."""
    assert await put(1, "until_done") == (1, True)
    assert await put(2, "until_done") == (1, False)
    found = runner(sql)
    found.claim()
    assert await put(3, "until_done") == (1, False)
    found.finish(1)
    second, created = await put(4, "until_done")
    assert (created, task_row(sql, second)["args"]) == (True, {"n": 4})
    assert task_row(sql, 1)["key"] is None
    assert task_row(sql, second)["key"] == "k"
    assert events_of(sql, 1)[-1] == "task_key_freed"
    assert await put(5, "until_done") == (second, False)


async def test_a_dead_letter_is_done(put: Put, sql: Sql) -> None:
    await put(1, "until_done")
    sql.execute("UPDATE regente.tasks SET status = 'canceled', finished_at = regente.clock()")
    assert (await put(2, "until_done"))[1]


async def test_a_key_may_be_free_when_its_task_has_started(put: Put, sql: Sql) -> None:
    """What changes while it runs is not lost: the second one runs after it."""
    assert await put(1, "until_started") == (1, True)
    assert await put(2, "until_started") == (1, False)
    runner(sql).claim()
    assert (await put(3, "until_started"))[1]
    assert task_row(sql, 1)["status"] == "running"


async def test_a_key_may_be_free_after_a_time(put: Put, sql: Sql, clock: Clock) -> None:
    """Whatever became of its task."""
    assert await put(1, hours(24)) == (1, True)
    clock.advance(hours=23.9)
    finish(sql)
    assert await put(2, hours(24)) == (1, False)
    clock.advance(hours=0.2)
    assert (await put(3, hours(24)))[1]


async def test_a_time_may_be_a_timedelta(app: Regente, clock: Clock) -> None:
    await app.enqueue("p", key="k", unique=timedelta(minutes=1))
    clock.advance(seconds=59)
    assert not (await app.enqueue("p", key="k", unique=timedelta(minutes=1))).created
    clock.advance(seconds=1)
    assert (await app.enqueue("p", key="k", unique=timedelta(minutes=1))).created


async def test_a_conflict_may_be_an_error_that_names_the_task(app: Regente, sql: Sql) -> None:
    await app.enqueue("p", key="k", on_conflict="error")
    with pytest.raises(AlreadyEnqueued, match="task 1 of p has the key k") as refused:
        await app.enqueue("p", key="k", on_conflict="error")
    assert refused.value.task_id == 1
    sql.execute("INSERT INTO regente.pipelines (name) VALUES ('p')")
    with pytest.raises(psycopg.Error, match="task 1 of p has the key k") as told:
        sql.execute("SELECT regente.enqueue('p', key => 'k', on_conflict => 'error')")
    assert told.value.sqlstate == "RG004"
    assert column(sql, "SELECT count(*) FROM regente.tasks") == [1]


async def test_a_task_that_waits_is_replaced(put: Put, sql: Sql) -> None:
    """It keeps its id; the event names what changed, of arguments the fields only."""
    await put(1, priority=1)
    assert await put(2, on_conflict="replace", priority=5, run_at=LATER, max_attempts=2) == (
        1,
        False,
    )
    row = task_row(sql, 1)
    assert (row["args"], row["priority"], row["max_attempts"]) == ({"n": 2}, 5, 2)
    assert row["run_at"] == LATER
    (told,) = column(sql, "SELECT details FROM regente.events WHERE event = 'task_changed'")
    assert told["changes"]["args"] == ["n"]
    assert told["changes"]["priority"] == {"from": 1, "to": 5}
    assert told["changes"]["max_attempts"] == {"from": None, "to": 2}
    assert sorted(told["changes"]) == ["args", "max_attempts", "priority", "run_at"]


async def test_a_replaced_task_changes_its_lane(put: Put, sql: Sql) -> None:
    """Into one, from one to another, and out of it: the limits are those of the new arguments."""
    await put(1)
    for lane in ("a", "b"):
        await put(2, on_conflict="replace", lane=lane)
        row = task_row(sql, 1)
        assert (row["lane"], row["run_at"].year) == (lane, 3500)
        assert row["lane_run_at"] is not None
    await put(3, on_conflict="replace")
    row = task_row(sql, 1)
    assert (row["lane"], row["lane_run_at"]) == (None, None)
    assert row["run_at"].year < 3500


async def test_what_has_started_is_not_replaced(put: Put, sql: Sql) -> None:
    """Running, or waiting for its second attempt: its steps were done with its arguments."""
    await put(1)
    found = runner(sql)
    found.claim()
    assert await put(2, on_conflict="replace") == (1, False)
    sql.execute(
        "UPDATE regente.tasks SET status = 'queued', runner_id = NULL, run_at = regente.clock()"
    )
    assert await put(3, "until_done", on_conflict="replace") == (1, False)
    assert task_row(sql, 1)["args"] == {"n": 1}
    assert "task_changed" not in events_of(sql, 1)


async def test_a_held_task_is_replaced_and_stays_held(put: Put, sql: Sql) -> None:
    await put(1, run_at=HELD)
    assert await put(2, on_conflict="replace") == (1, False)
    row = task_row(sql, 1)
    assert (row["args"], row["run_at"]) == ({"n": 2}, HELD)


async def test_a_replaced_task_is_started_at_its_new_time(
    app: Regente, put: Put, sql: Sql, no_polls: None
) -> None:
    """By its hint: no runner polls here."""
    await put(1, run_at=LATER)
    async with running(app):
        await status_is(app, 1, "queued")
        await put(2, on_conflict="replace")
        await status_is(app, 1, "completed")
    assert task_row(sql, 1)["result"] == 2


async def test_a_batch_counts_new_tasks_only(put: Put, app: Regente) -> None:
    await app.open_batch("b")
    for n in range(3):
        await put(n, "until_done", batch="b")
    assert ((await app.batch("b")).total, (await app.batch("b")).queued) == (1, 1)


async def test_a_new_task_opens_a_batch_that_had_ended(put: Put, app: Regente, sql: Sql) -> None:
    await put(1, "until_done", batch="b")
    await app.cancel(1)
    sql.execute(
        "UPDATE regente.batches SET status = 'completed', finished_at = regente.clock()"
        " WHERE name = 'b'"
    )
    await put(2, "until_done", batch="b")
    batch = await app.batch("b")
    assert (batch.status, batch.total, batch.balanced) == ("running", 2, True)
    told = column(sql, "SELECT event FROM regente.events WHERE task_id IS NULL AND batch_id = 1")
    assert told[-1:] == ["batch_reopened"]


async def test_a_missing_batch_stores_nothing(app: Regente, sql: Sql) -> None:
    with pytest.raises(Exception, match="no batch 7"):
        await app.enqueue("p", key="k", unique="until_done", batch=7)
    assert column(sql, "SELECT count(*) FROM regente.tasks") == [0]


@pytest.mark.parametrize("draft", [True, False])
async def test_it_is_part_of_the_callers_transaction(
    app: Regente, sql: Sql, holder: Sql, database_url: str, draft: bool
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        made = await app.enqueue(
            "p", key="k", unique="until_done", draft=draft, connection=connection
        )
        assert made.created
        assert column(sql, "SELECT count(*) FROM regente.tasks") == [0]
    assert task_row(sql, made)["status"] == ("draft" if draft else "queued")


@pytest.mark.parametrize(
    ("unique", "on_conflict", "message"),
    [
        ("never", "return", "unique is ever, until_done"),
        (0, "return", "above 0"),
        (-1.0, "return", "above 0"),
        (float("nan"), "return", "above 0"),
        (float("inf"), "return", "above 0"),
        (True, "return", "unique is ever"),
        (None, "return", "unique is ever"),
        (timedelta(0), "return", "above 0"),
        ("ever", "ignore", "on_conflict is return, replace, error"),
        ("ever", None, "on_conflict is return, replace, error"),
    ],
)
async def test_other_answers_are_refused(
    app: Regente, unique: Any, on_conflict: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await app.enqueue("p", key="k", unique=unique, on_conflict=on_conflict)


async def test_without_a_key_there_is_nothing_unique(app: Regente) -> None:
    with pytest.raises(InvalidInput, match="need a key"):
        await app.enqueue("p", unique="until_done")
    with pytest.raises(InvalidInput, match="need a key"):
        await app.enqueue("p", on_conflict="error")


# Races: the winner holds the lock.


async def test_of_two_that_take_a_free_key_one_gets_it(app: Regente, sql: Sql, holder: Sql) -> None:
    await app.enqueue("p", key="k")
    finish(sql)
    won = one(
        holder,
        "SELECT * FROM regente.store_unique(ROW('p', '{}', 'k', 0, NULL, NULL, NULL, false, NULL)"
        "::regente.new_task, 'until_done', 'return')",
    )
    lost = await loses(sql, holder, app.enqueue("p", {}, key="k", unique="until_done"))
    assert (won["created"], lost.created) == (True, False)
    assert lost == won["id"]


async def test_a_key_whose_task_is_queued_again_meanwhile_is_not_free(
    app: Regente, sql: Sql, holder: Sql
) -> None:
    """The operator's retry holds the row; the key stays with it."""
    await app.enqueue("p", key="k")
    await app.cancel(1)
    holder.execute("UPDATE regente.tasks SET status = 'queued', finished_at = NULL WHERE id = 1")
    lost = await loses(sql, holder, app.enqueue("p", {}, key="k", unique="until_done"))
    assert (lost, lost.created) == (1, False)
    assert task_row(sql, 1)["key"] == "k"


async def test_a_key_is_not_taken_once_its_task_is_queued_again(
    app: Regente, sql: Sql, holder: Sql, database_url: str
) -> None:
    """The retry comes between the look at the key and its taking, which looks again."""
    await app.enqueue("p", key="k")
    await app.cancel(1)
    holder.execute("UPDATE regente.tasks SET status = 'queued', finished_at = NULL WHERE id = 1")
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, application_name="taker"
    ) as taker:
        await loses(sql, holder, taker.execute("SELECT regente.free_key(1, 'k', 'until_done')"))
    assert task_row(sql, 1)["key"] == "k"
    assert "task_key_freed" not in events_of(sql, 1)


async def test_a_task_that_is_claimed_meanwhile_is_not_replaced(
    app: Regente, sql: Sql, holder: Sql
) -> None:
    await app.enqueue("p", {"n": 1}, key="k")
    claiming = SqlRunner(holder, runner(sql).id, ["p"])
    assert claiming.claim() == [1]
    lost = await loses(sql, holder, app.enqueue("p", {"n": 2}, key="k", on_conflict="replace"))
    assert (lost, lost.created) == (1, False)
    assert task_row(sql, 1)["args"] == {"n": 1}
    assert "task_changed" not in events_of(sql, 1)


async def test_a_claim_steps_over_a_task_that_is_being_replaced(
    app: Regente, sql: Sql, holder: Sql
) -> None:
    await app.enqueue("p", {"n": 1}, key="k")
    assert one(holder, "SELECT regente.change_task(1, '{\"priority\": 3}') AS done")["done"]
    found = runner(sql)
    assert found.claim() == []
    holder.commit()
    assert task_row(sql, 1)["priority"] == 3


async def test_a_returned_task_is_not_locked(app: Regente, sql: Sql, holder: Sql) -> None:
    """A caller's long transaction does not keep the runner from finishing the task."""
    await app.enqueue("p", key="k")
    found = runner(sql)
    found.claim()
    for on_conflict in ("return", "replace"):
        row = one(
            holder,
            "SELECT * FROM regente.store_unique(ROW('p', '{}', 'k', 0, NULL, NULL, NULL, false,"
            " NULL)::regente.new_task, 'until_done', %s)",
            on_conflict,
        )
        assert (row["id"], row["created"]) == (1, False)
    sql.execute("SET lock_timeout = '1s'")
    assert found.finish(1) == [1]


@pytest.mark.parametrize("unique", ["until_done", "until_started", 0.001])
async def test_many_at_once_leave_one_task_that_waits(
    app: Regente, sql: Sql, open_app: OpenApp, unique: Unique
) -> None:
    """At most one has the key at any time, while runners work on them."""
    other = await open_app()
    ids: set[int] = set()
    async with running(app):
        for _ in range(10):
            made = await asyncio.gather(
                *(
                    client.enqueue("p", {"n": 1}, key="k", unique=unique)
                    for client in (app, other)
                    for _ in range(5)
                )
            )
            ids |= set(made)
        for task_id in ids:
            await status_is(app, task_id, "completed")
    assert ids == set(column(sql, "SELECT id FROM regente.tasks"))
    assert column(sql, "SELECT count(*) FROM regente.tasks WHERE key IS NOT NULL") == [1]
    freed = column(sql, "SELECT task_id FROM regente.events WHERE event = 'task_key_freed'")
    assert sorted(freed) == sorted(ids)[:-1]


async def test_a_retried_task_without_its_key_runs_beside_the_new_one(
    app: Regente, sql: Sql, registry: Registry
) -> None:
    @registry.pipeline("failing", retry=Retry(max_attempts=1))
    async def failing(task: Task) -> None:
        raise Transient("no")

    first = await app.enqueue("failing", key="k", unique="until_done")
    await app.run(until_idle=True)
    second = await app.enqueue("failing", key="k", unique="until_done", draft=True)
    await app.retry(first)
    rows = many(sql, "SELECT id, key, status FROM regente.tasks ORDER BY id")
    assert [(row["id"], row["key"], row["status"]) for row in rows] == [
        (first, None, "queued"),
        (second, "k", "draft"),
    ]
