"""A batch must not close over a task that becomes live at that moment (I9). The winner's
transaction stays open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from regente import Regente, Task
from regente.engine.pipeline import Registry
from regente.engine.queries import query
from regente.engine.watchdog.batches import BatchReview
from tests.engine.helpers import SqlRunner
from tests.support.audit import audit
from tests.support.eventually import eventually_async

Connection = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def pipelines(registry: Registry) -> None:
    @registry.pipeline("job")
    async def job(task: Task) -> None:
        """Never run here."""


@pytest.fixture
def other(database_url: str) -> Iterator[Connection]:
    """Another client's connection."""
    with psycopg.connect(database_url) as connection:
        yield connection


async def test_a_batch_stays_open_while_its_last_failure_is_being_retried(
    app: Regente, other: Connection
) -> None:
    """I9: the retry is not committed yet, and the review sees only the failure."""
    task_id = await app.enqueue("job", batch="b")
    fail(other, task_id)
    other.execute(query("retry"), {"ids": [task_id], "details": None})
    await BatchReview(app.database, 1).run_once()
    other.commit()
    assert (await app.get(task_id)).status == "queued"
    assert (await app.batch("b")).status in ("pending", "running")


async def test_a_batch_that_closed_before_the_retry_got_its_lock_is_reopened(
    app: Regente, other: Connection
) -> None:
    """I9: the review commits first, then the retry."""
    task_id = await app.enqueue("job", batch="b")
    fail(other, task_id)
    await BatchReview(app.database, 1).run_once()
    assert (await app.batch("b")).status == "completed"
    await app.retry(task_id)
    assert (await app.batch("b")).status == "running"


async def test_a_batch_stays_open_while_tasks_are_being_added(
    app: Regente, other: Connection
) -> None:
    """I9: the review's snapshot is older than the addition, its lock is newer."""
    first = await app.enqueue("job", batch="b")
    fail(other, first)
    batch_id = (await app.batch("b")).id
    late_look = query("review_batches").replace(
        "FROM regente.batches b", "FROM slowly(regente.clock()), regente.batches b", 1
    )
    other.execute(
        "CREATE FUNCTION slowly(timestamptz) RETURNS integer LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_advisory_lock(7); RETURN 1; END $$"
    )
    other.execute("SELECT pg_advisory_lock(7)")
    other.commit()
    async with await psycopg.AsyncConnection.connect(app.database_url, autocommit=True) as reviewer:
        statement = late_look.replace(" FOR UPDATE SKIP", " FOR UPDATE OF b SKIP")
        looking = asyncio.create_task(
            reviewer.execute(statement, {"touched": "{}", "all_open": True})
        )
        await eventually_async(lambda: somebody_waits(app))
        await app.enqueue("job", batch="b")
        other.execute("SELECT pg_advisory_unlock(7)")
        other.commit()
        await looking
    assert (await app.batch(batch_id)).status in ("pending", "running")
    assert audit(other) == []


async def test_storing_the_same_key_again_does_not_reopen_a_completed_batch(
    app: Regente, other: Connection
) -> None:
    """I9, F12: a repeated enqueue adds nothing, so the batch completes once."""
    task_id = await app.enqueue("job", key="k", batch="b")
    fail(other, task_id)
    await BatchReview(app.database, 1).run_once()
    assert await app.enqueue("job", key="k", batch="b") == task_id
    await BatchReview(app.database, 1).run_once()
    assert (await app.batch("b")).status == "completed"
    ended = other.execute(
        "SELECT count(*) FROM regente.events WHERE event = 'batch_completed'"
    ).fetchone()
    assert ended == (1,)


async def test_queueing_a_draft_reopens_a_batch_that_was_given_up(
    app: Regente, other: Connection
) -> None:
    """I9: drafts outlive the failure of their batch."""
    await app.open_batch("b", stall_after=1, max_resumes=0)
    draft = await app.enqueue("job", batch="b", draft=True)
    await app.enqueue("job", batch="b")
    other.execute("UPDATE regente.batches SET progress_at = progress_at - interval '1 hour'")
    other.execute("UPDATE regente.tasks SET run_at = run_at - interval '1 hour'")
    SqlRunner.register(other, ["job"])
    other.execute("UPDATE regente.runners SET started_at = started_at - interval '1 hour'")
    other.commit()
    await BatchReview(app.database, 1).run_once()
    assert (await app.batch("b")).status == "failed"
    await app.queue([draft])
    assert (await app.batch("b")).status == "running"


async def somebody_waits(app: Regente) -> bool:
    async with await psycopg.AsyncConnection.connect(app.database_url) as connection:
        found = await connection.execute(
            "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = "
            "'advisory'"
        )
        return await found.fetchone() is not None


def fail(connection: Connection, task_id: int) -> None:
    """Fails the batch as the watchdog does after its last resume."""
    connection.execute(
        "UPDATE regente.tasks SET status = 'failed', finished_at = regente.clock() WHERE id = %s",
        (task_id,),
    )
    connection.execute(
        "INSERT INTO regente.events (task_id, attempt, event) VALUES (%s, 0, 'task_failed')",
        (task_id,),
    )
    connection.commit()
