"""Batches: every state, every transition, and counts that add up to the total at each moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regente import Fatal, InvalidInput, NotFound, Regente, Retry, Skip
from regente.engine.models import BatchInfo
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog.batches import BatchReview
from tests.engine.helpers import (
    Clock,
    Sql,
    SqlRunner,
    column,
    many,
    one,
    running,
    status_is,
    task_row,
    until,
)


@pytest.fixture(autouse=True)
def pipelines(registry: Registry) -> None:
    @registry.pipeline("p", retry=Retry(max_attempts=1), stall_after=None)
    async def run(task: Task[dict[str, Any]]) -> str:
        match task.args.get("do"):
            case "fail":
                raise Fatal("no", code=task.args.get("code", "NO"))
            case "skip":
                raise Skip("nothing to do")
            case "wait":
                await asyncio.Event().wait()
        return "done"


async def store(app: Regente, batch: int | str = "b") -> BatchInfo:
    """The batch, after checking that its counts add up."""
    found = await app.batch(batch)
    assert found.balanced, found
    return found


def events(sql: Sql) -> list[str]:
    return column(
        sql,
        "SELECT event FROM regente.events WHERE batch_id IS NOT NULL AND task_id IS NULL "
        "ORDER BY txid, id",
    )


async def review(app: Regente) -> list[str]:
    return await BatchReview(app.database, 1).run_once()


async def test_pending_running_completed(app: Regente, sql: Sql) -> None:
    """W2, I9: completed once all tasks ended, by any outcome; its event is written once."""
    await app.enqueue_many("p", [{}, {"do": "fail"}, {"do": "skip"}], batch="b")
    canceled = await app.enqueue("p", {}, batch="b")
    await app.cancel(canceled)
    assert (await store(app)).status == "pending"
    await app.run(until_idle=True)
    found = await store(app)
    assert (found.status, found.total) == ("completed", 4)
    assert (found.completed, found.failed, found.skipped, found.canceled) == (1, 1, 1, 1)
    assert found.finished_at is not None
    await review(app)
    assert events(sql).count("batch_completed") == 1


async def test_a_batch_runs_as_soon_as_one_of_its_tasks_does(app: Regente, sql: Sql) -> None:
    """W2: `running` from the first claim; the estimate appears with the first end."""
    await app.enqueue_many("p", [{}, {"do": "wait"}], batch="b")
    async with running(app):
        await until(lambda: events(sql) == ["batch_running"])
        found = await store(app)
        assert (found.status, found.running) == ("running", 1)
        assert found.eta_seconds is not None


async def test_no_progress_stalls_it_and_progress_brings_it_back(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """W1, W2: TRAVADO after `stall_after` without progress; back by itself."""
    sql_runner = SqlRunner.register(sql, ["p"], ttl_seconds=86_400)
    await app.enqueue_many("p", [{}] * 3, batch=await app.open_batch("b", stall_after=300))
    first, *_ = sql_runner.claim(3)
    await review(app)
    assert (await store(app)).status == "running"
    clock.advance(seconds=290)
    assert await review(app) == []
    clock.advance(seconds=20)
    assert await review(app) == ["b: running → stalled"]
    assert (await store(app)).status == "stalled"
    assert await review(app) == [], "said once"
    sql.execute("UPDATE regente.tasks SET heartbeat_at = regente.clock() WHERE id = %s", (first,))
    assert await review(app) == ["b: stalled → running"]
    assert (await store(app)).resumes == 0
    assert events(sql) == ["batch_running", "batch_stalled", "batch_running"]


async def test_what_caused_a_stall_is_recorded_and_stays(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """W2, W5: the task that the batch waited for, its step, its runner and its last error."""
    app.registry.declare("p")
    batch_id = await app.open_batch("b", stall_after=300, max_resumes=0)
    first, *_ = await app.enqueue_many("p", [{}, {}, {}], batch=batch_id, keys=["a", "b", "c"])
    runner = SqlRunner.register(sql, ["p"], ttl_seconds=86_400)
    assert runner.claim() == [first]
    sql.execute(
        "INSERT INTO regente.failures (task_id, attempt, pipeline, class, code, message, "
        "fingerprint) VALUES (%s, 1, 'p', 'transient', 'HTTP_503', 'it is away', '')",
        (first,),
    )
    sql.execute("UPDATE regente.tasks SET checkpoint = 'READ' WHERE id = %s", (first,))
    assert await review(app) == ["b: pending → running"]
    assert (await app.batch("b")).stall is None
    clock.advance(seconds=301)
    assert await review(app) == ["b: running → failed"]
    found = await app.batch("b")
    assert found.status == "failed"
    stall = found.stall
    assert stall is not None
    assert (stall.reason, stall.task_id, stall.key, stall.step, stall.status) == (
        "no_progress",
        first,
        "a",
        "READ",
        "running",
    )
    assert (stall.runner, stall.runner_alive) == ("sql-runner", True)
    assert (stall.error_code, stall.error_message) == ("HTTP_503", "it is away")
    details = one(sql, "SELECT details FROM regente.events WHERE event = 'batch_failed'")["details"]
    assert (details["reason"], details["task_id"]) == ("no_progress", first)
    await app.reprocess_batch("b")
    again = await app.batch("b")
    assert (again.status, again.stall) == ("running", stall)


async def test_a_slow_task_that_is_healthy_for_its_pipeline_is_no_stall(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """W1: a batch gives no task less time than its pipeline; nor does a resume take it back."""
    sql.execute("INSERT INTO regente.pipelines (name, stall_after) VALUES ('slow', '10 minutes')")
    app.registry.declare("slow")
    sql_runner = SqlRunner.register(sql, ["slow", "p"], ttl_seconds=86_400)
    batch_id = await app.open_batch("b", stall_after=300)
    slow = await app.enqueue("slow", {}, batch=batch_id)
    await app.enqueue("p", {}, batch=batch_id)
    assert len(sql_runner.claim(2)) == 2
    await review(app)
    clock.advance(seconds=500)
    assert await review(app) == []
    sql.execute("UPDATE regente.batches SET status = 'stalled'")
    assert (await app.resume_batch("b")).released == 1, "the other one"
    assert task_row(sql, slow)["status"] == "running"
    clock.advance(seconds=200)
    assert await review(app) == []
    clock.advance(seconds=200)
    assert await review(app) == ["b: running → stalled"]


async def test_waiting_for_its_time_or_in_a_paused_pipeline_is_no_stall(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """W1: only work that could make progress can stall."""
    from datetime import UTC, datetime, timedelta

    later = datetime.now(UTC) + timedelta(days=2)
    await app.enqueue("p", {}, batch="future", run_at=later)
    await app.enqueue("p", {}, batch="bank", draft=True)
    clock.advance(days=1)
    assert await review(app) == []
    await app.enqueue("p", {}, batch="paused")
    await app.pause("p")
    clock.advance(minutes=10)
    assert await review(app) == []
    await app.resume("p")
    assert await review(app) == ["paused: pending → stalled"]


async def test_resume_requeues_stuck_tasks_once(app: Regente, sql: Sql, clock: Clock) -> None:
    """W5, W7: a second call changes nothing and reports that."""
    sql_runner = SqlRunner.register(sql, ["p"], ttl_seconds=86_400)
    await app.enqueue_many("p", [{}] * 3, batch="b")
    sql_runner.claim(2)
    clock.advance(minutes=6)
    await review(app)
    resumed = await app.resume_batch("b")
    assert (resumed.resumed, resumed.released, resumed.resumes) == (True, 2, 1)
    again = await app.resume_batch("b")
    assert (again.resumed, again.resumes) == (False, 1)
    assert "running" in again.reason
    found = await store(app)
    assert (found.status, found.queued, found.running) == ("running", 3, 0)
    await app.run(until_idle=True)
    assert (await store(app)).status == "completed"
    assert column(sql, "SELECT tries FROM regente.tasks") == [0, 0, 0], "no try is charged"


async def test_after_the_last_resume_it_fails_and_the_rest_is_dead(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """W2, W3: ERRO after the last resume; remaining tasks become dead letters with a reason."""
    sql_runner = SqlRunner.register(sql, ["p"], ttl_seconds=86_400)
    batch_id = await app.open_batch("b", stall_after=300, max_resumes=2)
    await app.enqueue_many("p", [{}] * 3, batch=batch_id)
    (done,) = sql_runner.claim(1)
    sql_runner.finish(done)
    for turn in range(2):
        sql_runner.claim(1)
        clock.advance(minutes=6)
        await review(app)
        assert (await app.resume_batch("b")).resumes == turn + 1
    sql_runner.claim(1)
    clock.advance(minutes=6)
    assert await review(app) == ["b: running → failed"]
    found = await store(app)
    assert (found.status, found.completed, found.failed) == ("failed", 1, 2)
    assert set(column(sql, "SELECT error_code FROM regente.tasks WHERE status = 'failed'")) == {
        "BATCH_STALLED"
    }
    assert [row["class"] for row in many(sql, "SELECT class FROM regente.failures")] == [
        "stall",
        "stall",
    ]
    assert (await app.resume_batch("b")).resumed is False


async def test_a_task_that_its_batch_failed_accepts_no_writes(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """I3: the fence covers the batch's end as well."""
    sql_runner = SqlRunner.register(sql, ["p"], ttl_seconds=86_400)
    await app.enqueue("p", {}, batch=await app.open_batch("b", stall_after=1, max_resumes=0))
    (task_id,) = sql_runner.claim(1)
    clock.advance(minutes=1)
    await review(app)
    assert sql_runner.finish(task_id) == []
    assert task_row(sql, task_id)["status"] == "failed"


@pytest.mark.parametrize("how", ["all", "codes", "ids", "names that fit nothing"])
async def test_reprocess_runs_the_errors_again(app: Regente, sql: Sql, how: str) -> None:
    """W5, Z5: all of them, by code or by id; the batch opens again and closes again."""
    args = [{"do": "fail", "code": "A"}, {"do": "fail", "code": "B"}, {}]
    ids = await app.enqueue_many("p", args, batch="b")
    await app.run(until_idle=True)
    assert (await store(app)).status == "completed"
    sql.execute("UPDATE regente.tasks SET args = '{}'")
    choices: dict[str, dict[str, Any]] = {
        "all": {},
        "codes": {"codes": ["B"]},
        "ids": {"ids": [ids[0], ids[2]]},
    }
    options = choices.get(how, {"codes": ["X"]})
    expected = {"all": ids[:2], "codes": ids[1:2], "ids": ids[:1]}.get(how, [])
    assert await app.reprocess_batch("b", **options) == expected
    found = await store(app)
    assert (found.status, found.queued) == ("running" if expected else "completed", len(expected))
    await app.run(until_idle=True)
    found = await store(app)
    assert (found.status, found.failed) == ("completed", 2 - len(expected))
    assert events(sql).count("batch_reopened") == bool(expected)


async def test_cancel_ends_the_rest_and_leaves_what_has_ended(app: Regente, sql: Sql) -> None:
    """O12, W5: waiting tasks end at once, running ones by their runner."""
    await app.enqueue_many("p", [{}, {"do": "wait"}], batch="b")
    drafts = await app.enqueue_many("p", [{}] * 2, batch="b", draft=True)
    async with running(app):
        await until(
            lambda: sorted(column(sql, "SELECT status::text FROM regente.tasks"))[0] == "completed"
        )
        await until(lambda: "running" in column(sql, "SELECT status::text FROM regente.tasks"))
        assert await app.cancel_batch("b") == {"canceled": 2, "canceling": 1}
        for task_id in drafts:
            await status_is(app, task_id, "canceled")
        await until(lambda: "running" not in column(sql, "SELECT status::text FROM regente.tasks"))
    found = await store(app)
    assert (found.status, found.completed, found.canceled) == ("canceled", 1, 3)
    assert await app.cancel_batch("b") == {"canceled": 0, "canceling": 0}
    assert events(sql).count("batch_canceled") == 1


@pytest.mark.parametrize("ended", ["completed", "canceled", "failed"])
async def test_more_tasks_open_an_ended_batch_again(
    app: Regente, sql: Sql, clock: Clock, ended: str
) -> None:
    """I9, Z5: also a failed one."""
    await app.enqueue("p", {}, batch=await app.open_batch("b", stall_after=1, max_resumes=0))
    match ended:
        case "completed":
            await app.run(until_idle=True)
        case "canceled":
            await app.cancel_batch("b")
        case "failed":
            SqlRunner.register(sql, ["p"], ttl_seconds=3600)
            clock.advance(minutes=1)
            await review(app)
    assert (await store(app)).status == ended
    await app.enqueue_many("p", [{}] * 2, batch="b")
    assert (await store(app)).status == "running"
    await app.run(until_idle=True)
    found = await store(app)
    assert (found.status, found.total) == ("completed", 3)
    assert "batch_reopened" in events(sql)


async def test_an_operators_retry_opens_the_batch(app: Regente, sql: Sql) -> None:
    """I9: also the retry of a single task."""
    task_id = await app.enqueue("p", {"do": "fail"}, batch="b")
    await app.run(until_idle=True)
    sql.execute("UPDATE regente.tasks SET args = '{}'")
    await app.retry(task_id)
    assert (await store(app)).status == "running"
    await app.run(until_idle=True)
    assert (await store(app)).completed == 1


async def test_a_batch_is_opened_once_by_its_name(app: Regente, sql: Sql) -> None:
    """Z1: a second call finds the batch of the first, with any other options."""
    first = await app.open_batch("b", stall_after=60, max_resumes=1, details={"round": 7})
    assert await app.open_batch("b", stall_after=999) == first
    ids = await asyncio.gather(*(app.open_batch("together") for _ in range(10)))
    assert len(set(ids)) == 1
    found = await app.batch(first)
    assert (found.stall_after_seconds, found.max_resumes, found.details) == (60, 1, {"round": 7})
    assert [batch.name for batch in await app.batches()] == ["together", "b"]


@pytest.mark.parametrize(
    "options",
    [
        {"stall_after": -1},
        {"stall_after": float("nan")},
        {"max_resumes": -1},
        {"max_resumes": 10**6},
    ],
)
async def test_invalid_options_are_refused(app: Regente, sql: Sql, options: dict[str, Any]) -> None:
    """F15: before they reach the database."""
    with pytest.raises(InvalidInput):
        await app.open_batch("b", **options)
    assert many(sql, "SELECT 1 FROM regente.batches") == []


@pytest.mark.parametrize("action", ["batch", "resume_batch", "reprocess_batch", "cancel_batch"])
async def test_an_unknown_batch_is_not_found(app: Regente, action: str) -> None:
    """W5: by id and by name."""
    for name in (99, "nope"):
        with pytest.raises(NotFound, match=f"there is no batch {name}"):
            await getattr(app, action)(name)


async def test_the_counts_add_up_at_every_moment(app: Regente, sql: Sql) -> None:
    """I9: read repeatedly while two thousand tasks run."""
    kinds: list[dict[str, Any]] = [{}, {"do": "fail"}, {"do": "skip"}, {}]
    ids = await app.enqueue_many("p", [kinds[n % 4] for n in range(2_000)], batch="b")
    async with running(app):
        await app.cancel_many(ids[::7])
        while (await store(app)).status != "completed":
            await asyncio.sleep(0)
    found = await store(app)
    assert found.total == 2_000
    assert found.completed + found.failed + found.skipped + found.canceled == 2_000
    assert (
        one(sql, "SELECT count(*) FROM regente.events WHERE event = 'batch_completed'")["count"]
        == 1
    )


async def test_a_batch_that_stays_empty_is_closed(app: Regente, clock: Clock) -> None:
    """I9: a batch without tasks does not stay open for ever."""
    batch_id = await app.open_batch("nothing", stall_after=300.0)
    review = BatchReview(app.database, 1.0)
    assert await review.run_once() == []
    clock.advance(seconds=301)
    assert await review.run_once() == ["nothing: pending → completed"]
    assert (await app.batch(batch_id)).balanced
