"""Two statements that want one task: the winner holds the row lock, the loser must lose cleanly.

Each test runs the winner's own statement in a transaction that stays open, starts the loser, proves
that it waits for that very lock (or steps around it), commits the winner, and looks at what the
loser made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import psycopg
import pytest

from regente import IllegalTransition, Regente
from regente.engine.database import TaskConnection, number_array
from regente.engine.models import Resumed
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.task_store import TaskStore
from regente.engine.watchdog.batches import BatchReview
from regente.engine.watchdog.reaper import Reaper
from regente.engine.watchdog.schedules import ScheduleSweep
from regente.settings import Settings
from tests.engine.conftest import OpenApp
from tests.engine.helpers import (
    REAP,
    WRITES,
    Sql,
    SqlRunner,
    claims_of,
    events_of,
    finish_params,
    one,
    run_query,
    running,
    status_is,
    step_params,
    task_row,
    until,
)

RENEWAL_AND_LOSER = 2  # the runner's lease keeper waits for its row as well


@pytest.fixture
def settings() -> Settings:
    """Renews the lease at once, so that a runner that was declared lost learns of it at once."""
    return Settings(
        sweep_seconds=0.2, batches_seconds=60, schedules_seconds=60, heartbeat_interval_ms=100
    )


INSERT_EFFECT = "INSERT INTO public.sink VALUES (%s, %s)"


async def insert_effect(connection: TaskConnection, task: Task) -> int:
    await connection.execute(INSERT_EFFECT, [task.id, task.attempt])
    return task.attempt


class Gate:
    """A pipeline that stops where the test wants it to."""

    def __init__(self, registry: Registry) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.ran: list[int] = []

        @registry.pipeline("p")
        async def run(task: Task[dict[str, Any]]) -> str:
            self.ran.append(task.attempt)
            self.reached.set()
            await self.open.wait()
            match task.args.get("do"):
                case "step":
                    await task.step("A", lambda: "a")
                case "transaction":
                    async with task.transaction("T") as connection:
                        await connection.execute(INSERT_EFFECT, [task.id, task.attempt])
                case "transact":
                    assert await task.transact("T", insert_effect, task) == task.attempt
            return f"attempt {task.attempt}"


@pytest.fixture
def gate(registry: Registry) -> Gate:
    return Gate(registry)


async def waits_for(sql: Sql, holder: Sql, count: int = 1) -> None:
    """Waits until that many connections wait for a lock of the holder."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND %s = ANY "
        "(pg_blocking_pids(pid))"
    )
    await until(lambda: one(sql, waiting, holder.info.backend_pid)["count"] >= count)


async def loses(sql: Sql, holder: Sql, loser: Awaitable[Any]) -> Any:
    """Starts the loser, sees it wait, commits the winner; the loser's result or its error."""
    lost = asyncio.ensure_future(loser)
    await waits_for(sql, holder)
    holder.commit()
    return (await asyncio.gather(lost, return_exceptions=True))[0]


def reaper(app: Regente) -> Reaper:
    return Reaper(app.database, 60, 3, lambda _: None)


def declare_lost(connection: psycopg.Connection[Any]) -> None:
    """Expires the runners' leases and runs the statement that marks them lost."""
    connection.execute(
        "UPDATE regente.runners SET lease_until = regente.clock() - interval '1 second' "
        "WHERE status < 'stopped'"
    )
    assert run_query(connection, "mark_lost_runners") != []


async def test_reap_wins_over_complete(app: Regente, sql: Sql, holder: Sql, gate: Gate) -> None:
    """I3, I4, S4: the completion waits, finds the task requeued, and writes nothing."""
    task_id = await app.enqueue("p", {})
    async with running(app):
        await gate.reached.wait()
        declare_lost(holder)
        assert run_query(holder, "reap", REAP) == [task_id]
        gate.open.set()
        await waits_for(sql, holder, RENEWAL_AND_LOSER)
        holder.commit()
        await status_is(app, task_id, "completed")
    row = task_row(sql, task_id)
    assert (row["attempt"], row["result"], row["crashes"], gate.ran) == (2, "attempt 2", 1, [1, 2])
    assert events_of(sql, task_id).count("task_completed") == 1


async def test_recover_wins_over_complete(app: Regente, sql: Sql, holder: Sql, gate: Gate) -> None:
    """I3, I4: the completion under way meets the fence; the hint to stop finds nothing left."""
    task_id = await app.enqueue("p", {})
    async with running(app):
        await gate.reached.wait()
        everything = {"stuck_seconds": 0, "pipeline": None, "id": None, "by": None}
        assert run_query(holder, "recover_stuck", everything) == [task_id]
        gate.open.set()
        await waits_for(sql, holder)
        holder.commit()
        await status_is(app, task_id, "completed")
    row = task_row(sql, task_id)
    assert (row["attempt"], row["result"], gate.ran) == (2, "attempt 2", [1, 2])
    assert events_of(sql, task_id).count("task_completed") == 1


async def test_complete_wins_over_reap(app: Regente, sql: Sql, holder: Sql) -> None:
    """S4, I2: the reaper skips a row that is being finished."""
    sql_runner = SqlRunner.register(sql, ["p"])
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    (task_id,) = sql_runner.claim()
    sql_runner.expire_lease()
    assert run_query(holder, "finish", finish_params(sql_runner.id, task_id)) == [task_id]
    reaped = await reaper(app).run_once()
    assert (reaped.lost_runners, reaped.requeued) == (1, 0)
    holder.commit()
    assert (await reaper(app).run_once()).requeued == 0
    assert (task_row(sql, task_id)["status"], events_of(sql, task_id)[-1]) == (
        "completed",
        "task_completed",
    )


async def test_complete_wins_over_cancel(app: Regente, sql: Sql, holder: Sql) -> None:
    """O12, I5: a cancel that comes too late reports the task's final status."""
    sql_runner = SqlRunner.register(sql, ["p"])
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    (task_id,) = sql_runner.claim()
    run_query(holder, "finish", finish_params(sql_runner.id, task_id))
    answer = await loses(sql, holder, app.cancel(task_id))
    assert isinstance(answer, IllegalTransition)
    assert str(answer) == f"task {task_id} is completed: there is nothing to cancel"
    assert (task_row(sql, task_id)["status"], task_row(sql, task_id)["cancel_requested_at"]) == (
        "completed",
        None,
    )


async def test_cancel_wins_over_complete(app: Regente, sql: Sql, holder: Sql, gate: Gate) -> None:
    """O12: the request commits first, but the work was done: the task completes once."""
    task_id = await app.enqueue("p", {})
    async with running(app):
        await gate.reached.wait()
        run_query(holder, "cancel", {"ids": number_array([task_id]), "details": None})
        gate.open.set()
        await waits_for(sql, holder)
        holder.commit()
        await status_is(app, task_id, "completed", "canceled")
    row = task_row(sql, task_id)
    assert (row["status"], row["cancel_requested_at"], gate.ran) == ("completed", None, [1])
    assert events_of(sql, task_id)[-2:] == ["task_cancel_requested", "task_completed"]


@pytest.mark.parametrize("written", ["completion", "settlement", "step"])
async def test_writes_for_several_tasks_lock_in_the_order_of_a_bulk_cancel(
    app: Regente, sql: Sql, holder: Sql, written: str
) -> None:
    """O12, I5: no deadlock, in any order in which the tasks ended."""
    sql.execute("INSERT INTO regente.tasks (pipeline) SELECT 'other' FROM generate_series(1, 5000)")
    sql.execute("INSERT INTO regente.tasks (pipeline) SELECT 'p' FROM generate_series(1, 9)")
    sql.execute("ANALYZE regente.tasks")
    store = TaskStore(app.database, SqlRunner.register(sql, ["p"]).id)
    first, *others = await claims_of(store, "p", 9)
    lock = "SELECT FROM regente.tasks WHERE id = %s FOR UPDATE NOWAIT"
    holder.execute(lock, [first.id])
    store.start()
    under_way = [
        asyncio.ensure_future(WRITES[written](store, claim)) for claim in [*reversed(others), first]
    ]
    await waits_for(sql, holder)
    for other in others:
        holder.execute(lock, [other.id])
    holder.commit()
    assert await asyncio.gather(*under_way) == [True] * 9
    await store.stop()


async def test_claim_wins_over_cancel(app: Regente, sql: Sql, holder: Sql) -> None:
    """O12: the task is running by then, so its runner is asked to stop it."""
    sql_runner = SqlRunner.register(sql, ["p"])
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    holding = SqlRunner(holder, sql_runner.id, ["p"])
    (task_id,) = holding.claim()
    assert await loses(sql, holder, app.cancel(task_id)) == "canceling"
    row = task_row(sql, task_id)
    assert (row["status"], row["runner_id"]) == ("running", sql_runner.id)
    assert row["cancel_requested_at"] is not None
    assert events_of(sql, task_id) == ["task_claimed", "task_cancel_requested"]


async def test_the_end_of_an_attempt_wins_over_cancel(app: Regente, sql: Sql, holder: Sql) -> None:
    """I5, O12: the task that was running when cancel began is queued when cancel has its lock."""
    runner = SqlRunner.register(sql, ["p"])
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    (task_id,) = runner.claim()
    ended = "UPDATE regente.tasks SET status = 'queued', runner_id = NULL WHERE id = %s"
    holder.execute(ended, (task_id,))
    assert await loses(sql, holder, app.cancel(task_id)) == "canceled"
    assert task_row(sql, task_id)["status"] == "canceled"


async def test_a_dead_letter_wins_over_its_retry(app: Regente, sql: Sql, holder: Sql) -> None:
    """I5: the task that was running when the retry began is a dead letter when it has the lock."""
    runner = SqlRunner.register(sql, ["p"])
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    (task_id,) = runner.claim()
    died = "UPDATE regente.tasks SET status = 'failed', runner_id = NULL, finished_at = now()"
    holder.execute(died)
    assert await loses(sql, holder, app.retry(task_id)) is None
    assert task_row(sql, task_id)["status"] == "queued"


async def test_cancel_wins_over_claim(app: Regente, sql: Sql, holder: Sql) -> None:
    """S3, I4: a claim skips a locked row and takes the next one."""
    sql_runner = SqlRunner.register(sql, ["p"])
    first, second = run_query(sql, "insert_tasks", inserted(2))
    run_query(holder, "cancel", {"ids": number_array([first]), "details": None})
    assert sql_runner.claim(2) == [second]
    holder.commit()
    assert sql_runner.claim(2) == []
    assert (task_row(sql, first)["status"], task_row(sql, first)["attempt"]) == ("canceled", 0)


def inserted(count: int) -> dict[str, str]:
    from regente.engine.enqueue import NewTask, _columns

    return _columns([NewTask("p", "{}")] * count)


async def test_two_claims_never_take_the_same_task(sql: Sql, holder: Sql) -> None:
    """O7, S3: the second claim skips the rows that the first has locked."""
    ids = run_query(sql, "insert_tasks", inserted(5))
    one_runner, other = SqlRunner.register(sql, ["p"]), SqlRunner.register(sql, ["p"])
    assert SqlRunner(holder, one_runner.id, ["p"]).claim(3) == ids[:3]
    assert other.claim(5) == ids[3:]
    holder.commit()


async def test_of_two_retries_one_wins(app: Regente, sql: Sql, holder: Sql) -> None:
    """W7: the second reports that the task is queued already."""
    task_id = one(
        sql,
        "INSERT INTO regente.tasks (pipeline, status, finished_at) VALUES ('p', 'failed', "
        "now()) RETURNING id",
    )["id"]
    run_query(holder, "retry", {"ids": number_array([task_id]), "details": None})
    answer = await loses(sql, holder, app.retry(task_id))
    assert isinstance(answer, IllegalTransition)
    assert str(answer).startswith(f"task {task_id} is queued: only failed, canceled and skipped")
    assert events_of(sql, task_id) == ["task_requeued"]


async def test_retry_and_discard_of_one_dead_letter(app: Regente, sql: Sql, holder: Sql) -> None:
    """I5: the second of them changes nothing."""
    task_id = one(
        sql,
        "INSERT INTO regente.tasks (pipeline, status, finished_at) VALUES ('p', 'failed', "
        "now()) RETURNING id",
    )["id"]
    run_query(holder, "retry", {"ids": number_array([task_id]), "details": None})
    assert await loses(sql, holder, app.discard([task_id])) == []
    assert (task_row(sql, task_id)["status"], events_of(sql, task_id)) == (
        "queued",
        ["task_requeued"],
    )


async def test_reap_wins_over_step(app: Regente, sql: Sql, holder: Sql, gate: Gate) -> None:
    """I3, Q6: the step is not recorded, and `LeaseLost` ends the attempt."""
    task_id = await app.enqueue("p", {"do": "step"})
    async with running(app):
        await gate.reached.wait()
        declare_lost(holder)
        assert run_query(holder, "reap", REAP) == [task_id]
        gate.open.set()
        await waits_for(sql, holder, RENEWAL_AND_LOSER)
        assert one(sql, "SELECT count(*) FROM regente.steps")["count"] == 0
        holder.commit()
        await status_is(app, task_id, "completed")
    assert one(sql, "SELECT name, attempt FROM regente.steps") == {"name": "A", "attempt": 2}
    assert events_of(sql, task_id).count("step_completed") == 1


async def test_step_wins_over_reap(app: Regente, sql: Sql, holder: Sql) -> None:
    """I3: the reaper skips a row whose step is being recorded, until the next sweep."""
    sql_runner = SqlRunner.register(sql, ["p"])
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    (task_id,) = sql_runner.claim()
    sql_runner.expire_lease()
    assert run_query(holder, "record_steps", step_params(sql_runner.id, task_id, "A")) == [task_id]
    assert (await reaper(app).run_once()).requeued == 0
    holder.commit()
    assert (await reaper(app).run_once()).requeued == 1
    assert one(sql, "SELECT count(*) FROM regente.steps")["count"] == 1, (
        "what was recorded stays recorded"
    )


@pytest.mark.parametrize("form", ["transaction", "transact"])
async def test_reap_wins_over_transaction(
    app: Regente, sql: Sql, holder: Sql, gate: Gate, form: str
) -> None:
    """I2, Z6: the effect of an attempt that lost its task is rolled back with the step."""
    sql.execute("CREATE TABLE public.sink (task_id bigint, attempt int)")
    task_id = await app.enqueue("p", {"do": form})
    async with running(app):
        await gate.reached.wait()
        declare_lost(holder)
        assert run_query(holder, "reap", REAP) == [task_id]
        gate.open.set()
        await waits_for(sql, holder, RENEWAL_AND_LOSER)
        holder.commit()
        await status_is(app, task_id, "completed")
    assert sql.execute("SELECT * FROM public.sink").fetchall() == [
        {"task_id": task_id, "attempt": 2}
    ]


@pytest.mark.parametrize("form", ["transaction", "transact"])
async def test_transaction_commit_wins_over_reap(
    app: Regente, sql: Sql, gate: Gate, form: str
) -> None:
    """I2, Z6: a transaction at its commit keeps the task; effect and step are stored once."""
    sql.execute("CREATE TABLE public.sink (task_id bigint, attempt int)")
    sql.execute(
        "CREATE OR REPLACE FUNCTION public.slow_commit() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END $$"
    )
    sql.execute(
        "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON public.sink DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION public.slow_commit()"
    )
    task_id = await app.enqueue("p", {"do": form})
    async with running(app):
        await gate.reached.wait()
        sql.execute("SELECT pg_advisory_lock(4711)")
        gate.open.set()
        await waits_for(sql, sql)
        runner_id = task_row(sql, task_id)["runner_id"]
        with sql.transaction(force_rollback=True):
            sql.execute("UPDATE regente.runners SET status = 'lost' WHERE id = %s", (runner_id,))
            assert run_query(sql, "reap", REAP) == [], "the row is locked by the commit under way"
        sql.execute("SELECT pg_advisory_unlock(4711)")
        await status_is(app, task_id, "completed")
    assert sql.execute("SELECT * FROM public.sink").fetchall() == [
        {"task_id": task_id, "attempt": 1}
    ]
    assert one(sql, "SELECT name, attempt FROM regente.steps") == {"name": "T", "attempt": 1}


async def test_mark_lost_wins_over_renewal(app: Regente, sql: Sql, holder: Sql, gate: Gate) -> None:
    """I3, I4: a runner that was declared lost stops its tasks and registers under a new id."""
    task_id = await app.enqueue("p", {})
    async with running(app):
        await gate.reached.wait()
        runner = app._runner
        assert runner is not None
        first = runner.id
        declare_lost(holder)
        await waits_for(sql, holder)
        holder.commit()
        await until(lambda: runner.id != first)
        gate.open.set()
        await status_is(app, task_id, "completed")
    statuses = {
        row["id"]: row["status"]
        for row in sql.execute("SELECT id, status::text FROM regente.runners").fetchall()
    }
    assert statuses[first] == "lost"
    assert gate.ran == [1, 2]


async def test_renewal_wins_over_mark_lost(app: Regente, sql: Sql, holder: Sql) -> None:
    """I4: the reaper leaves a runner that is renewing."""
    sql_runner = SqlRunner.register(sql, ["p"])
    sql_runner.expire_lease()
    renewal = {
        "runner_id": sql_runner.id,
        "ttl_seconds": 60,
        "claimed": 0,
        "completed": 0,
        "failed": 0,
        "retried": 0,
        "recovered": 0,
        "handed_back": 0,
        "busy_seconds": 0,
    }
    assert run_query(holder, "renew_lease", renewal) == [sql_runner.id]
    assert (await reaper(app).run_once()).lost_runners == 0
    holder.commit()
    assert (await reaper(app).run_once()).lost_runners == 0
    assert (
        one(sql, "SELECT status::text FROM regente.runners WHERE id = %s", sql_runner.id)["status"]
        == "running"
    )


async def test_of_two_resumes_one_wins(app: Regente, sql: Sql, holder: Sql) -> None:
    """W7: the other reports that there was nothing to resume."""
    batch_id = one(
        sql, "INSERT INTO regente.batches (name, status) VALUES ('b', 'stalled') RETURNING id"
    )["id"]
    assert run_query(holder, "resume_batch", {"batch_id": batch_id, "details": None}) == [batch_id]
    answer = await loses(sql, holder, app.resume_batch("b"))
    assert isinstance(answer, Resumed)
    assert (answer.resumed, answer.resumes) == (False, 1)
    assert "running" in answer.reason
    assert (
        one(sql, "SELECT count(*) FROM regente.events WHERE event = 'batch_resumed'")["count"] == 1
    )


async def test_enqueue_into_a_batch_wins_over_its_closing(
    app: Regente, sql: Sql, holder: Sql, registry: Registry, gate: Gate
) -> None:
    """I9: no review closes a batch while tasks are added; it stays open with them."""
    batch_id = await app.open_batch("b")
    sql.execute(
        "INSERT INTO regente.tasks (pipeline, batch_id, status, finished_at) VALUES ('p', "
        "%s, 'completed', now())",
        (batch_id,),
    )
    sql.execute("UPDATE regente.batches SET total = 1, status = 'running'")
    holder.execute("INSERT INTO regente.tasks (pipeline, batch_id) VALUES ('p', %s)", (batch_id,))
    more = {"batch_id": batch_id, "count": 1, "within": None}
    assert run_query(holder, "add_to_batch", more) == [batch_id]
    assert await BatchReview(app.database, 1).run_once() == []
    holder.commit()
    assert await BatchReview(app.database, 1).run_once() == []
    store = await app.batch(batch_id)
    assert (store.status, store.total, store.queued, store.balanced) == ("running", 2, 1, True)


async def test_the_closing_of_a_batch_wins_over_enqueue(
    app: Regente, sql: Sql, holder: Sql, gate: Gate
) -> None:
    """I9: tasks added to a batch that was just closed reopen it."""
    batch_id = await app.open_batch("b")
    sql.execute(
        "INSERT INTO regente.tasks (pipeline, batch_id, status, finished_at) VALUES ('p', "
        "%s, 'completed', now())",
        (batch_id,),
    )
    sql.execute("UPDATE regente.batches SET total = 1, status = 'running'")
    run_query(holder, "review_batches", {"touched": "{}", "all_open": True})
    await loses(sql, holder, app.enqueue("p", {}, batch="b"))
    store = await app.batch(batch_id)
    assert (store.status, store.total, store.queued, store.balanced) == ("running", 2, 1, True)
    events = (
        "SELECT event FROM regente.events WHERE batch_id = %s AND task_id IS NULL ORDER BY txid, id"
    )
    assert [row["event"] for row in sql.execute(events, (batch_id,))] == [
        "batch_completed",
        "batch_reopened",
    ]


async def test_the_closing_of_a_batch_wins_over_retry(app: Regente, sql: Sql, holder: Sql) -> None:
    """I9: a retry that meets the closing of its batch reopens it."""
    batch_id = await app.open_batch("b")
    task_id = one(
        sql,
        "INSERT INTO regente.tasks (pipeline, batch_id, status, finished_at) VALUES ('p', "
        "%s, 'failed', now()) RETURNING id",
        batch_id,
    )["id"]
    sql.execute("UPDATE regente.batches SET total = 1, status = 'running'")
    run_query(holder, "review_batches", {"touched": "{}", "all_open": True})
    await loses(sql, holder, app.retry(task_id))
    assert (await app.batch(batch_id)).status == "running"


async def test_retry_wins_over_the_closing_of_its_batch(
    app: Regente, sql: Sql, holder: Sql
) -> None:
    """I9: the review skips a batch that a retry has locked."""
    batch_id = await app.open_batch("b")
    task_id = one(
        sql,
        "INSERT INTO regente.tasks (pipeline, batch_id, status, finished_at) VALUES ('p', "
        "%s, 'failed', now()) RETURNING id",
        batch_id,
    )["id"]
    sql.execute("UPDATE regente.batches SET total = 1, status = 'running'")
    run_query(holder, "retry", {"ids": number_array([task_id]), "details": None})
    assert await BatchReview(app.database, 1).run_once() == []
    holder.commit()
    await BatchReview(app.database, 1).run_once()
    assert (await app.batch(batch_id)).status == "running"


async def test_two_sweepers_fire_a_schedule_once(
    app: Regente, open_app: OpenApp, sql: Sql, holder: Sql, gate: Gate
) -> None:
    """Q4: the second sweep skips the schedule that the first has locked."""
    await app.schedule("nightly", "p", "0 4 * * *")
    sql.execute("UPDATE regente.schedules SET next_at = regente.clock() - interval '1 minute'")
    assert run_query(holder, "due_schedules", {"limit": 10, "max_waiting": 1}) == ["nightly"]
    assert await ScheduleSweep(app.database, 1).run_once() == []
    holder.rollback()
    sweepers = [ScheduleSweep((await open_app()).database, 1) for _ in range(3)]
    fired = await asyncio.gather(*(sweeper.run_once() for sweeper in sweepers))
    assert sorted(name for names in fired for name in names) == ["nightly"]
    assert one(sql, "SELECT count(*) FROM regente.tasks")["count"] == 1


async def test_two_sweepers_start_a_waiting_run_once(
    app: Regente, sql: Sql, holder: Sql, gate: Gate
) -> None:
    """Q4, I5: the second skips the locked schedule; told of it before the first has committed, it
    finds that nothing waits."""
    task_id = await app.enqueue("p")
    await app.schedule("nightly", "p", "0 4 * * *", overlap="queue")
    sql.execute("UPDATE regente.schedules SET last_task = %s", (task_id,))
    for day in (1, 2):
        sql.execute(
            "INSERT INTO regente.schedule_runs (schedule, due_at, state)"
            " VALUES ('nightly', %s, 'waiting')",
            (f"2026-01-0{day}",),
        )
    sql.execute("UPDATE regente.tasks SET status = 'canceled', finished_at = regente.clock()")
    assert run_query(holder, "waiting_schedules", {"after": "", "limit": 10}) == ["nightly"]
    assert len(run_query(holder, "start_waiting_run", {"name": "nightly"})) == 1
    assert await ScheduleSweep(app.database, 1).run_once() == []
    holder.commit()
    assert run_query(sql, "start_waiting_run", {"name": "nightly"}) == []
    assert await ScheduleSweep(app.database, 1).run_once() == []
    states = "SELECT string_agg(state, ' ' ORDER BY due_at) AS all FROM regente.schedule_runs"
    assert one(sql, states)["all"] == "queued waiting"


@pytest.mark.parametrize("change", ["pause_schedule", "remove_schedule"])
async def test_a_schedule_that_is_just_paused_or_removed_does_not_fire(
    app: Regente, sql: Sql, holder: Sql, gate: Gate, change: str
) -> None:
    """Q4: the sweep skips the row that the operator has locked, and does not find it later."""
    await app.schedule("nightly", "p", "0 4 * * *")
    sql.execute("UPDATE regente.schedules SET next_at = regente.clock() - interval '1 minute'")
    run_query(holder, change, {"name": "nightly", "details": None})
    assert await ScheduleSweep(app.database, 1).run_once() == []
    holder.commit()
    assert await ScheduleSweep(app.database, 1).run_once() == []


async def test_a_schedule_is_paused_behind_a_sweep(
    app: Regente, sql: Sql, holder: Sql, gate: Gate
) -> None:
    """Q4: the pause waits for the sweep's transaction, and is not lost in it."""
    await app.schedule("nightly", "p", "0 4 * * *")
    sql.execute("UPDATE regente.schedules SET next_at = regente.clock() - interval '1 minute'")
    assert run_query(holder, "due_schedules", {"limit": 10, "max_waiting": 1}) == ["nightly"]
    due = {"name": "nightly", "missed": [], "next_at": "2030-01-01", "runs": ["2026-01-01"]}
    run_query(holder, "fire_schedule", due)
    await loses(sql, holder, app.pause_schedule("nightly"))
    [found] = await app.schedules()
    assert (found["state"], found["next_at"].year) == ("paused", 2030)
