"""Enqueueing one or many tasks, alone or in the caller's transaction, with events and order."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from regente import InvalidInput, NotFound, Regente
from regente.engine.enqueue import COPY_FROM
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Sql, column, events_of, many, one, running, task_row, until

MANY = COPY_FROM + 50
FEW = 5


@pytest.fixture(autouse=True)
def seen(registry: Registry) -> list[int]:
    """The numbers of the tasks that ran, in order."""
    found: list[int] = []

    @registry.pipeline("any")
    async def run(task: Task[dict[str, Any]]) -> None:
        found.append(task.args.get("n", -1))

    return found


def count(sql: Sql, table: str = "tasks") -> int:
    return int(one(sql, f"SELECT count(*) FROM regente.{table}")["count"])


async def test_a_task_is_durable_with_its_event_when_enqueue_returns(
    app: Regente, sql: Sql
) -> None:
    """I1, I6, Q1: all of its options are visible to another connection."""
    later = datetime(2040, 1, 1, tzinfo=UTC)
    task_id = await app.enqueue("any", {"n": 1}, key="k", priority=3, run_at=later, max_attempts=7)
    row = task_row(sql, task_id)
    assert (row["status"], row["args"], row["key"], row["priority"]) == ("queued", {"n": 1}, "k", 3)
    assert (row["run_at"], row["max_attempts"], row["attempt"], row["tries"]) == (later, 7, 0, 0)
    assert row["queued_at"] is not None
    assert events_of(sql, task_id) == ["task_queued"]


@pytest.mark.parametrize("number", [0, 1, FEW, COPY_FROM - 1, COPY_FROM, MANY, 5_001])
async def test_ids_come_back_in_the_order_of_the_arguments(
    app: Regente, sql: Sql, number: int
) -> None:
    """S3: by INSERT or COPY, the n-th id belongs to the n-th arguments, and ids ascend."""
    ids = await app.enqueue_many("any", ({"n": n} for n in range(number)))
    assert ids == sorted(set(ids))
    assert len(ids) == number
    rows = {row["id"]: row["args"]["n"] for row in many(sql, "SELECT id, args FROM regente.tasks")}
    assert [rows[task_id] for task_id in ids] == list(range(number))
    assert count(sql, "events") == number


async def test_insert_and_copy_store_the_same_row(app: Regente, sql: Sql) -> None:
    """I6: the two differ in speed only."""
    options: dict[str, Any] = {
        "priority": -2,
        "run_at": datetime(2040, 1, 1, tzinfo=UTC),
        "max_attempts": 4,
        "batch": "b",
    }
    few = await app.enqueue_many("any", [{"n": 7}] * FEW, **options)
    lot = await app.enqueue_many("any", [{"n": 7}] * MANY, **options)
    hidden = ("id", "created_at", "queued_at")
    first, second = (
        {k: v for k, v in task_row(sql, ids[0]).items() if k not in hidden} for ids in (few, lot)
    )
    assert first == second
    events = "SELECT event, batch_id, attempt FROM regente.events WHERE task_id = %s"
    assert many(sql, events, few[0]) == many(sql, events, lot[0])
    assert (await app.batch("b")).total == FEW + MANY


@pytest.mark.parametrize("number", [FEW, MANY])
async def test_drafts_are_not_run_until_they_are_queued(
    app: Regente, sql: Sql, seen: list[int], number: int
) -> None:
    """O2, O5."""
    ids = await app.enqueue_many("any", [{"n": 1}] * number, draft=True)
    await app.run(until_idle=True)
    assert seen == []
    assert set(column(sql, "SELECT status::text FROM regente.tasks")) == {"draft"}
    assert await app.queue(ids[:2]) == ids[:2]
    await app.run(until_idle=True)
    assert seen == [1, 1]
    assert events_of(sql, ids[0]) == [
        "task_drafted",
        "task_queued",
        "task_claimed",
        "task_completed",
    ]


@pytest.mark.parametrize("number", [1, FEW, MANY])
@pytest.mark.parametrize("autocommit", [False, True])
async def test_in_the_callers_transaction_it_commits_and_rolls_back_with_it(
    app: Regente, sql: Sql, database_url: str, number: int, autocommit: bool
) -> None:
    """I1: rolled back, no task exists; committed, all of them do."""
    async with await AsyncConnection.connect(database_url, autocommit=autocommit) as connection:
        async with connection.transaction(force_rollback=True):
            ids = await app.enqueue_many("any", [{}] * number, batch="b", connection=connection)
            assert len(ids) == number
            assert count(sql) == 0
        assert (count(sql), count(sql, "events"), count(sql, "batches")) == (0, 0, 0)
        async with connection.transaction():
            ids = await app.enqueue_many("any", [{}] * number, connection=connection)
        assert column(sql, "SELECT id FROM regente.tasks ORDER BY id") == ids


async def test_the_first_statement_of_an_implicit_transaction_is_part_of_it(
    app: Regente, sql: Sql, database_url: str
) -> None:
    """I1: also on a connection without an open transaction."""
    async with await AsyncConnection.connect(database_url) as connection:
        await app.enqueue("any", {}, key="k", connection=connection)
        await app.enqueue("any", {}, batch="b", connection=connection)
        assert count(sql) == 0
        await connection.rollback()
    assert (count(sql), count(sql, "batches")) == (0, 0)


@pytest.mark.parametrize("number", [1, MANY])
async def test_a_refused_batch_leaves_nothing_in_the_callers_transaction(
    app: Regente, sql: Sql, database_url: str, number: int
) -> None:
    """I9: the caller may commit; no task of the unknown batch is stored."""
    async with await AsyncConnection.connect(database_url, autocommit=True) as connection:
        async with connection.transaction():
            await app.enqueue("any", {"n": 1}, connection=connection)
            with pytest.raises(NotFound, match="there is no batch 99"):
                await app.enqueue_many("any", [{}] * number, batch=99, connection=connection)
        with pytest.raises(NotFound, match="there is no batch 99"):
            await app.enqueue_many("any", [{}] * number, batch=99, connection=connection)
    assert column(sql, "SELECT args ->> 'n' FROM regente.tasks") == ["1"]


@pytest.mark.usefixtures("no_polls")
async def test_the_commit_of_the_callers_transaction_wakes_a_runner(
    app: Regente, open_app: OpenApp, database_url: str, seen: list[int]
) -> None:
    """Z9: an idle runner is notified at the commit, before its next poll."""
    client = await open_app()
    async with (
        running(app),
        await AsyncConnection.connect(database_url, autocommit=True) as connection,
    ):
        await until(lambda: app._runner is not None and app._runner._listener.listening)
        async with connection.transaction():
            await client.enqueue("any", {"n": 5}, connection=connection)
        await until(lambda: seen == [5])


async def test_concurrent_single_enqueues_share_commits_and_lose_nothing(
    app: Regente, sql: Sql
) -> None:
    """I1: each caller gets the id of its own task."""
    ids = await asyncio.gather(*(app.enqueue("any", {"n": n}) for n in range(500)))
    rows = {row["id"]: row["args"]["n"] for row in many(sql, "SELECT id, args FROM regente.tasks")}
    assert [rows[task_id] for task_id in ids] == list(range(500))
    transactions = one(sql, "SELECT count(DISTINCT txid) FROM regente.events")["count"]
    assert transactions < 100, f"500 enqueues took {transactions} commits"


async def test_one_bad_among_concurrent_callers_fails_alone(app: Regente, sql: Sql) -> None:
    """F15: callers share statements, not errors."""
    calls = [app.enqueue("any", {"n": n}, priority=n if n != 5 else 40_000) for n in range(10)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, InvalidInput) for answer in answers] == [n == 5 for n in range(10)]
    assert count(sql) == 9


async def test_a_client_without_the_code_may_enqueue_what_a_runner_has_registered(
    app: Regente, database_url: str, sql: Sql
) -> None:
    """Z9: the API process need not import pipelines; runners register them."""
    await app.run(until_idle=True)
    async with Regente(database_url, pipelines=Registry()) as other:
        task_id = await other.enqueue("any", {"n": 1})
    assert task_row(sql, task_id)["pipeline"] == "any"


@pytest.mark.parametrize("number", [1, 200])
@pytest.mark.parametrize(
    "value",
    [
        "\\u0000",
        "\\\\u0000",
        "a\\",
        '"',
        "\t\n\r\x1b\x7f",
        "{}",
        "\\N",
        "\\.",
        "😀 ünï 漢",
        "\u2028",
        "a" * 500,
        "'; --",
        "%s",
    ],
)
async def test_awkward_but_valid_text_comes_back_unchanged(
    app: Regente, sql: Sql, value: str, number: int
) -> None:
    """F15: a backslash before u0000 is text, not NUL; nothing is lost in arrays or in COPY."""
    args = {"text": value, value: [value]}
    ids = await app.enqueue_many("any", [args] * number, keys=[value] if number == 1 else None)
    assert task_row(sql, ids[0])["args"] == args
    assert (await app.get(ids[0])).args == args


@pytest.mark.parametrize("year", [1, 1969, 9999])
async def test_any_moment_with_a_time_zone_is_accepted(app: Regente, sql: Sql, year: int) -> None:
    """`run_at` may be far away in either direction."""
    moment = datetime(year, 12, 31, 23, 59, tzinfo=UTC)
    task_id = await app.enqueue("any", {}, run_at=moment)
    assert one(sql, "SELECT run_at = %s AS same FROM regente.tasks WHERE id = %s", moment, task_id)[
        "same"
    ]


async def test_an_argument_of_exactly_the_limit_is_accepted(app: Regente, sql: Sql) -> None:
    """F15: the limit itself is allowed."""
    task_id = await app.enqueue("any", {"a": "x" * (1024 * 1024 - 8)})
    assert (
        one(sql, "SELECT length(args ->> 'a') AS n FROM regente.tasks WHERE id = %s", task_id)["n"]
        == 1024 * 1024 - 8
    )


async def test_two_calls_that_lock_the_same_keys_in_opposite_order_both_succeed(
    app: Regente, open_app: OpenApp, sql: Sql
) -> None:
    """F14: the engine retries a deadlock; the caller gets no error."""
    other = await open_app()
    keys = [f"k{n}" for n in range(300)]
    for turn in range(2):
        names = [f"{turn}-{key}" for key in keys]
        there, back = await asyncio.gather(
            app.enqueue_many("any", [{}] * 300, keys=names),
            other.enqueue_many("any", [{}] * 300, keys=names[::-1]),
        )
        assert there == back[::-1]
    assert count(sql) == 2 * 300


@pytest.mark.usefixtures("no_polls")
async def test_a_past_run_at_is_due_at_once(app: Regente, seen: list[int]) -> None:
    """Also for a runner that already knows parts of the queue."""
    async with running(app):
        await app.enqueue("any", {"n": 1})
        await until(lambda: seen == [1])
        await app.enqueue("any", {"n": 2}, run_at=datetime.now(UTC) - timedelta(days=1))
        await until(lambda: seen == [1, 2])
