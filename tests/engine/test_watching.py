"""Processes that watch, with or without a runner: they take turns, and tell what has no runner."""

from __future__ import annotations

import asyncio

import pytest

from regente import Regente
from regente.engine.watchdog import Watchdog, WatchdogConfig
from regente.engine.watchdog.batches import BatchReview
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Clock, Sql, SqlRunner, events_of, many, one, task_row, until

TURN = {"name": "reaper", "every_seconds": 60.0}


async def turns_taken(app: Regente, count: int) -> int:
    answers = await asyncio.gather(*(app.database.fetch("take_turn", TURN) for _ in range(count)))
    return sum(rows[0][0] for rows in answers)


async def test_one_process_sweeps_at_a_time(app: Regente, clock: Clock) -> None:
    """S5: once per interval over all processes, however often they ask."""
    assert await turns_taken(app, 20) == 1
    assert await turns_taken(app, 20) == 0
    clock.advance(seconds=20)
    assert await turns_taken(app, 20) == 0
    clock.advance(seconds=41)
    assert await turns_taken(app, 20) == 1


async def test_a_process_that_dies_in_its_turn_costs_one_interval(
    app: Regente, clock: Clock
) -> None:
    """I8: a turn need not be released."""
    assert await turns_taken(app, 1) == 1
    [(taken, due_seconds)] = await app.database.fetch("take_turn", TURN)
    assert not taken
    assert 0 < due_seconds <= 60
    clock.advance(seconds=61)
    assert await turns_taken(app, 1) == 1


async def test_a_clock_that_was_set_back_stops_no_sweep(app: Regente, clock: Clock) -> None:
    """I8, F9."""
    clock.advance(days=1)
    assert await turns_taken(app, 1) == 1
    clock.advance(days=-1)
    assert await turns_taken(app, 1) == 1
    assert await turns_taken(app, 1) == 0


async def test_nobody_waits_for_a_turn_that_another_takes(
    app: Regente, clock: Clock, holder: Sql
) -> None:
    """I8: the loser leaves without the lock."""
    assert await turns_taken(app, 1) == 1
    clock.advance(seconds=61)
    holder.execute("UPDATE regente.sweeps SET begun_at = regente.clock() WHERE name = 'reaper'")
    assert await turns_taken(app, 5) == 0
    holder.commit()
    assert await turns_taken(app, 5) == 0


async def test_a_process_without_a_runner_recovers_what_a_lost_runner_left(
    app: Regente, sql: Sql
) -> None:
    """I1, I8: as `regente serve` does."""
    sql_runner = SqlRunner.register(sql, ["p"])
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    (task_id,) = sql_runner.claim()
    sql_runner.expire_lease()
    async with app.watch():
        await until(lambda: task_row(sql, task_id)["status"] == "queued")
    assert events_of(sql, task_id)[-1] == "task_recovered"


async def test_a_sweep_that_fails_is_done_again_before_its_interval(
    app: Regente, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: the turn is not wasted."""
    watchdog = Watchdog(app.database, WatchdogConfig())
    monkeypatch.setattr("regente.engine.watchdog.AGAIN_SECONDS", 0.01)
    sql.execute("ALTER TABLE regente.runners RENAME TO elsewhere")
    sweeps = watchdog.start()
    try:
        await until(lambda: many(sql, "SELECT FROM regente.sweeps WHERE name = 'retention'"))
        sql.execute("ALTER TABLE regente.elsewhere RENAME TO runners")
        sql_runner = SqlRunner.register(sql, ["p"])
        sql_runner.expire_lease()
        lost = "SELECT FROM regente.runners WHERE status = 'lost'"
        await until(lambda: many(sql, lost))
    finally:
        for sweep in sweeps:
            sweep.cancel()


async def test_schedules_do_not_fire_without_a_runner(app: Regente, sql: Sql) -> None:
    """O15: the queue does not fill up while no runner works on it."""
    app.registry.declare("p")
    await app.schedule("every minute", "p", "* * * * *")
    sql.execute("UPDATE regente.schedules SET next_at = regente.clock() - interval '1 minute'")
    async with app.watch():
        await until(lambda: many(sql, "SELECT FROM regente.sweeps WHERE name = 'retention'"))
    assert many(sql, "SELECT FROM regente.tasks") == []
    assert many(sql, "SELECT FROM regente.sweeps WHERE name = 'schedules'") == []


STALLED = (
    "SELECT details FROM regente.events WHERE event = 'batch_stalled' ORDER BY id DESC LIMIT 1"
)


async def batch_of_two(app: Regente, max_resumes: int = 3) -> None:
    app.registry.declare("p")
    batch_id = await app.open_batch("b", stall_after=300, max_resumes=max_resumes)
    await app.enqueue_many("p", [{}, {}], batch=batch_id)


async def test_a_batch_without_a_runner_says_so_within_its_stall_time(
    app: Regente, sql: Sql, clock: Clock, open_app: OpenApp
) -> None:
    """W1, W2: the only runner died; what it ran keeps its place, so nothing begins anew."""
    await batch_of_two(app)
    sql_runner = SqlRunner.register(sql, ["p"])
    (first, _) = sql_runner.claim(2)
    sql_runner.finish(first)
    async with app.watch():
        await until(lambda: one(sql, "SELECT status FROM regente.batches")["status"] == "running")
        assert (await app.batch("b")).eta_seconds is not None
        clock.advance(seconds=61)
        assert (await app.batch("b")).eta_seconds is None
        clock.advance(seconds=241)
        await until(lambda: one(sql, "SELECT status FROM regente.batches")["status"] == "stalled")
    assert one(sql, STALLED)["details"]["reason"] == "no_runner"
    assert (await app.batch("b")).eta_seconds is None
    assert (await app.resume_batch("b")).resumed


async def test_a_batch_that_a_runner_serves_in_vain_makes_no_progress(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """W2."""
    await batch_of_two(app)
    SqlRunner.register(sql, ["other", "p"], ttl_seconds=86_400)
    clock.advance(seconds=301)
    await BatchReview(app.database, 1).run_once()
    assert one(sql, STALLED)["details"]["reason"] == "no_progress"


async def test_a_batch_does_not_fail_for_want_of_a_runner(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """I1, W3: nor at the moment when one starts; it has its stall time."""
    await batch_of_two(app, max_resumes=0)
    SqlRunner.register(sql, ["other"], ttl_seconds=86_400)
    clock.advance(days=2)
    review = BatchReview(app.database, 1)
    assert await review.run_once() == ["b: pending → stalled"]
    SqlRunner.register(sql, ["p"], ttl_seconds=86_400)
    assert await review.run_once() == []
    clock.advance(seconds=301)
    assert await review.run_once() == ["b: stalled → failed"]


async def test_why_names_the_lost_runner(app: Regente, sql: Sql) -> None:
    """O13: also before the reaper has put the task back."""
    sql_runner = SqlRunner.register(sql, ["p"])
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    (task_id,) = sql_runner.claim()
    assert (await app.why(task_id)).code == "RUNNING"
    sql_runner.expire_lease()
    why = await app.why(task_id)
    assert why.code == "RUNNER_LOST"
    assert "start one" in why.summary
