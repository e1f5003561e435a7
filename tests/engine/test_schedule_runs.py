"""What becomes of a schedule's times: overlap, catch-up, pause, jitter, and the record of runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from regente import InvalidInput, NotFound, Regente, minutes
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog import schedules
from regente.engine.watchdog.retention import RetentionSweep
from regente.engine.watchdog.schedules import ScheduleSweep
from tests.engine.helpers import Clock, Sql, SqlRunner, column, many, one, running, until

MIDNIGHT = datetime(2026, 3, 10, tzinfo=UTC)
DONE = "SELECT count(*) FROM regente.tasks WHERE status = 'completed'"


class Hourly(BaseModel):
    hour: datetime


def moment(minute: float) -> datetime:
    return MIDNIGHT + timedelta(minutes=minute)


@pytest.fixture(autouse=True)
def pipelines(registry: Registry) -> None:
    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> None:
        return None

    @registry.pipeline("typed", args=Hourly)
    async def typed(task: Task[Hourly]) -> str:
        return task.args.hour.isoformat()

    @registry.pipeline("laned", lane=lambda args: args["host"])
    async def laned(task: Task[dict[str, Any]]) -> None:
        return None


@pytest.fixture
def at(clock: Clock) -> At:
    return At(clock)


class At:
    """Stops the clock at so many minutes after midnight."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self(0)

    def __call__(self, minute: float) -> None:
        self._clock.stop_at(moment(minute).isoformat())


async def sweep(app: Regente) -> list[str]:
    return await ScheduleSweep(app.database, 10).run_once()


async def history(app: Regente, name: str = "s") -> list[tuple[int, str, int]]:
    """Minute, state and number of times, the oldest first."""
    found = await app.schedule_runs(name)
    return [
        (int((run.due_at - MIDNIGHT).total_seconds() // 60), run.state, run.times)
        for run in reversed(found)
    ]


def end(sql: Sql, status: str = "completed") -> None:
    """All tasks that are queued, by a runner."""
    runner = SqlRunner.register(sql, ["p"])
    for task_id in runner.claim(100):
        sql.execute(
            "UPDATE regente.tasks SET status = %s, runner_id = NULL, finished_at = now()"
            " WHERE id = %s",
            (status, task_id),
        )


def due_minutes(sql: Sql) -> list[int]:
    """Those of the tasks, in their order."""
    found = column(
        sql,
        "SELECT (details ->> 'due_at')::timestamptz FROM regente.events"
        " WHERE event = 'task_queued' ORDER BY task_id",
    )
    return [int((due_at - MIDNIGHT).total_seconds() // 60) for due_at in found]


@pytest.mark.parametrize(
    ("catch_up", "tasks", "expected"),
    [
        ("none", [], [(1, "missed", 5)]),
        ("one", [5], [(1, "missed", 4), (5, "queued", 1)]),
        ("all", [1, 2, 3, 4, 5], [(minute, "queued", 1) for minute in range(1, 6)]),
    ],
)
async def test_missed_times_are_caught_up_as_the_schedule_says(
    app: Regente, sql: Sql, at: At, catch_up: Any, tasks: list[int], expected: Any
) -> None:
    """Q4: and the regular times follow."""
    await app.schedule("s", "p", "1-5,30 * * * *", catch_up=catch_up)
    at(20)
    await sweep(app)
    assert (due_minutes(sql), await history(app)) == (tasks, expected)
    at(30)
    assert await sweep(app) == ["s"]
    assert due_minutes(sql) == [*tasks, 30]


@pytest.mark.parametrize(("late", "runs"), [(60, True), (61, False)])
async def test_without_catch_up_a_time_is_missed_after_a_minute(
    app: Regente, sql: Sql, at: At, late: int, runs: bool
) -> None:
    """Q4: a sweep that is a little late loses nothing."""
    await app.schedule("s", "p", "10 * * * *", catch_up="none")
    at(10 + late / 60)
    assert await sweep(app) == (["s"] if runs else [])
    assert await history(app) == [(10, "queued" if runs else "missed", 1)]


async def test_a_slow_interval_makes_no_time_late(app: Regente, at: At) -> None:
    """Q4: with sweeps every five minutes, a time is found up to five minutes after it."""
    await app.schedule("s", "p", "10 * * * *", catch_up="none")
    at(15)
    assert await ScheduleSweep(app.database, 300).run_once() == ["s"]


@pytest.mark.parametrize("catch_up", ["one", "all"])
async def test_a_long_downtime_is_caught_up_in_several_transactions(
    app: Regente, sql: Sql, at: At, monkeypatch: pytest.MonkeyPatch, catch_up: Any
) -> None:
    """Q4: no time is lost or repeated where one transaction ends and the next begins."""
    monkeypatch.setattr(schedules, "MAX_TIMES", 7)
    await app.schedule("s", "p", "* * * * *", catch_up=catch_up)
    at(28)  # four times seven
    await sweep(app)
    assert due_minutes(sql) == (list(range(1, 29)) if catch_up == "all" else [28])
    assert sum(times for _, _, times in await history(app)) == 28
    at(31)
    await sweep(app)
    assert due_minutes(sql)[-1] == 31
    assert sum(times for _, _, times in await history(app)) == 31


@pytest.mark.parametrize("ending", ["completed", "failed", "canceled", "skipped"])
async def test_a_run_is_skipped_while_the_one_before_is_unfinished(
    app: Regente, sql: Sql, at: At, ending: str
) -> None:
    """Q4."""
    await app.schedule("s", "p", "*/10 * * * *", overlap="skip")
    for minute in (10, 20):
        at(minute)
        await sweep(app)
    end(sql, ending)
    at(30)
    assert await sweep(app) == ["s"]
    assert await history(app) == [(10, "queued", 1), (20, "skipped", 1), (30, "queued", 1)]
    told = many(sql, "SELECT details FROM regente.events WHERE event = 'schedule_run_skipped'")
    assert [row["details"]["schedule"] for row in told] == ["s"]


async def test_a_task_that_waits_for_its_next_try_is_unfinished(
    app: Regente, sql: Sql, at: At
) -> None:
    """Q4: as is one that sleeps, or is held."""
    await app.schedule("s", "p", "*/10 * * * *", overlap="skip")
    at(10)
    await sweep(app)
    SqlRunner.register(sql, ["p"]).claim(1)
    sql.execute(
        "UPDATE regente.tasks SET status = 'queued', runner_id = NULL,"
        " run_at = regente.clock() + interval '1 day'"
    )
    at(20)
    assert await sweep(app) == []


async def test_runs_in_a_queue_go_one_after_another(app: Regente, sql: Sql, at: At) -> None:
    """Q4: in their order, none is lost."""
    await app.schedule("s", "p", "*/10 * * * *", overlap="queue")
    for minute in (10, 20, 30):
        at(minute)
        await sweep(app)
    assert await history(app) == [(10, "queued", 1), (20, "waiting", 1), (30, "waiting", 1)]
    assert [row["waiting"] for row in await app.schedules()] == [2]
    for expected in ([10, 20], [10, 20, 30]):
        end(sql)
        assert await sweep(app) == ["s"]
        assert await sweep(app) == [], "one at a time"
        assert due_minutes(sql) == expected
    end(sql)
    assert await sweep(app) == []
    assert {state for _, state, _ in await history(app)} == {"queued"}


async def test_runs_that_waited_are_started_in_their_lane(app: Regente, sql: Sql, at: At) -> None:
    """Q4: each by the end of the one before."""
    await app.schedule("s", "laned", "*/10 * * * *", {"host": "a"}, overlap="queue")
    for minute in (10, 20):
        at(minute)
        await sweep(app)
    assert await history(app) == [(10, "queued", 1), (20, "waiting", 1)]
    async with running(app):
        await until(lambda: column(sql, DONE) == [2])
    assert column(sql, "SELECT lane FROM regente.tasks") == ["a", "a"]


async def test_a_new_time_waits_behind_those_that_wait(app: Regente, sql: Sql, at: At) -> None:
    """Q4: also when the run before has just ended."""
    await app.schedule("s", "p", "*/10 * * * *", overlap="queue")
    for minute in (10, 20):
        at(minute)
        await sweep(app)
    end(sql)
    at(30)
    await sweep(app)
    assert due_minutes(sql) == [10, 20]
    assert await history(app) == [(10, "queued", 1), (20, "queued", 1), (30, "waiting", 1)]


async def test_every_schedule_has_its_turn(
    app: Regente, sql: Sql, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q4: also when more are due, or have a run that waits, than one transaction looks at."""
    monkeypatch.setattr(schedules, "LIMIT", 2)
    for name in "abcde":
        await app.schedule(name, "p", "*/10 * * * *", overlap="queue")
    at(10)
    assert sorted(await sweep(app)) == [*"abcde"]
    at(20)
    assert await sweep(app) == []
    end(sql)
    assert await sweep(app) == [*"abcde"]


async def test_the_number_of_waiting_runs_is_bounded(
    app: Regente, sql: Sql, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q4: the other times stay due, so that with catch-up none is lost."""
    monkeypatch.setattr(schedules, "MAX_WAITING", 3)
    monkeypatch.setattr(schedules, "MAX_TIMES", 2)
    await app.schedule("s", "p", "* * * * *", overlap="queue", catch_up="all")
    at(20)
    await sweep(app)
    assert [state for _, state, _ in await history(app)] == ["queued", *["waiting"] * 3]
    for _ in range(20):
        end(sql)
        await sweep(app)
    assert due_minutes(sql) == list(range(1, 21))


async def test_a_paused_schedule_queues_nothing(app: Regente, sql: Sql, at: At) -> None:
    """Q4: also no run that waits. A deploy does not resume it."""
    await app.schedule("s", "p", "*/10 * * * *", overlap="queue")
    for minute in (10, 20):
        at(minute)
        await sweep(app)
    await app.pause_schedule("s", by="ana")
    await app.pause_schedule("s", by="ana")
    end(sql)
    at(40)
    await app.schedule("s", "p", "*/20 * * * *", overlap="queue")
    assert (await sweep(app), due_minutes(sql)) == ([], [10])
    [row] = await app.schedules()
    assert (row["state"], row["paused_at"]) == ("paused", moment(20))
    assert await app.next_runs("s") == []
    told = many(sql, "SELECT details FROM regente.events WHERE event = 'schedule_paused'")
    assert [row["details"] for row in told] == [{"schedule": "s", "by": "ana"}]


@pytest.mark.parametrize(
    ("catch_up", "skip_missed", "tasks"),
    [("none", False, []), ("one", False, [30]), ("all", False, [10, 20, 30]), ("all", True, [])],
)
async def test_a_resumed_schedule_catches_up(
    app: Regente, sql: Sql, at: At, catch_up: Any, skip_missed: bool, tasks: list[int]
) -> None:
    """Q4: times of the pause are times that were missed, unless the operator leaves them out."""
    await app.schedule("s", "p", "*/10 * * * *", catch_up=catch_up)
    await app.pause_schedule("s")
    at(35)
    assert await sweep(app) == []
    await app.resume_schedule("s", skip_missed=skip_missed, by="ana")
    await app.resume_schedule("s", skip_missed=skip_missed, by="ana")
    await sweep(app)
    at(40)
    await sweep(app)
    assert due_minutes(sql) == [*tasks, 40]
    [told] = many(sql, "SELECT details FROM regente.events WHERE event = 'schedule_resumed'")
    assert told["details"]["by"] == "ana"
    assert ("skipped_from" in told["details"]) == skip_missed


async def test_a_disabled_schedule_is_tried_again_when_it_is_resumed(
    app: Regente, sql: Sql, at: At
) -> None:
    """Z8: its expression was put right by hand."""
    await app.schedule("s", "p", "*/10 * * * *")
    sql.execute("UPDATE regente.schedules SET cron = 'nonsense'")
    at(10)
    await sweep(app)
    assert [row["state"] for row in await app.schedules()] == ["disabled"]
    sql.execute("UPDATE regente.schedules SET cron = '*/10 * * * *'")
    await app.resume_schedule("s")
    assert await sweep(app) == ["s"]


async def test_tasks_are_spread_over_the_jitter(app: Regente, sql: Sql, at: At) -> None:
    """Q4: each starts within it, and not all at once."""
    for number in range(40):
        await app.schedule(f"s{number}", "p", "10 * * * *", jitter=minutes(5))
    await app.schedule("exact", "p", "10 * * * *")
    await app.schedule("laned", "laned", "10 * * * *", {"host": "a"}, jitter=300)
    at(10)
    await sweep(app)
    rows = many(
        sql,
        "SELECT details ->> 'schedule' AS name,"
        " coalesce(lane_run_at, run_at) - regente.clock() AS wait"
        " FROM regente.tasks t JOIN regente.events e ON e.task_id = t.id",
    )
    waits = {row["name"]: row["wait"].total_seconds() for row in rows}
    assert waits.pop("exact") == 0
    assert all(0 <= wait <= 300 for wait in waits.values())
    assert max(waits.values()) - min(waits.values()) > 60
    assert waits["laned"] > 0


async def test_a_run_is_told_its_time(app: Regente, sql: Sql, at: At) -> None:
    """Q4: each of those that are caught up, as an argument of the pipeline's type."""
    await app.schedule("s", "typed", "*/10 * * * *", catch_up="all", due_as="hour")
    at(20)
    await sweep(app)
    async with running(app):
        await until(lambda: column(sql, DONE) == [2])
    found = column(sql, "SELECT result FROM regente.tasks ORDER BY id")
    assert [datetime.fromisoformat(text) for text in found] == [moment(10), moment(20)]


async def test_the_last_and_the_next_runs_are_told(app: Regente, sql: Sql, at: At) -> None:
    """Q4, Q5: with the state of each task, also when it was deleted since."""
    await app.schedule("s", "p", "*/10 * * * *", timezone="Europe/Berlin")
    for minute in (10, 20, 30):
        at(minute)
        await sweep(app)
        end(sql, "failed" if minute == 20 else "completed")
    sql.execute("DELETE FROM regente.tasks WHERE id = 1")
    found = await app.schedule_runs("s", limit=2)
    assert [(run.task_id, run.task_status) for run in found] == [(3, "completed"), (2, "failed")]
    [first] = await app.schedule_runs("s", before=found[-1].due_at)
    assert (first.task_id, first.task_status) == (1, None)
    [row] = await app.schedules()
    assert (row["last_task"], row["last_status"], row["state"]) == (3, "completed", "enabled")
    assert await app.next_runs("s", 3) == [moment(40 + 10 * n) for n in range(3)]


async def test_a_removed_schedule_takes_its_record_along(app: Regente, sql: Sql, at: At) -> None:
    """Q4: added again, its times begin anew; the tasks stay."""
    await app.schedule("s", "p", "*/10 * * * *", overlap="queue")
    for minute in (10, 20):
        at(minute)
        await sweep(app)
    await app.unschedule("s")
    assert many(sql, "SELECT FROM regente.schedule_runs") == []
    await app.schedule("s", "p", "*/10 * * * *", overlap="queue")
    end(sql)
    assert await sweep(app) == []
    at(30)
    assert await sweep(app) == ["s"]
    assert await history(app) == [(30, "queued", 1)]


async def test_a_time_that_was_dealt_with_is_not_run_again(app: Regente, sql: Sql, at: At) -> None:
    """I5, Q4: when the schedule's next time is set back, as by a clock or by hand."""
    await app.schedule("s", "p", "*/10 * * * *", catch_up="all")
    at(20)
    await sweep(app)
    sql.execute("DELETE FROM regente.tasks WHERE id = 1")
    sql.execute("UPDATE regente.schedules SET next_at = %s", (moment(10),))
    assert await sweep(app) == []
    assert due_minutes(sql) == [10, 20]
    assert one(sql, "SELECT count(*) FROM regente.tasks")["count"] == 1


async def test_old_runs_are_deleted_after_the_retention_time(
    app: Regente, at: At, clock: Clock
) -> None:
    """Q10: what waits stays."""
    await app.schedule("s", "p", "*/10 * * * *", overlap="queue")
    for minute in (10, 20):
        at(minute)
        await sweep(app)
    sweeper = RetentionSweep(app.database, 60, 3600)
    at(70)
    assert (await sweeper.run_once()).schedule_runs == 0
    at(71)
    assert (await sweeper.run_once()).schedule_runs == 1
    at(200)
    assert (await sweeper.run_once()).schedule_runs == 0
    assert await history(app) == [(20, "waiting", 1)]


async def test_a_runner_starts_the_run_that_waits(app: Regente, sql: Sql, at: At) -> None:
    """Q4: by its own sweeps."""
    await app.schedule("s", "p", "*/10 * * * *", overlap="queue")
    for minute in (10, 20):
        at(minute)
        await sweep(app)
    async with running(app):
        await until(lambda: column(sql, DONE) == [2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"overlap": "both"}, "overlap is one of allow, skip, queue, not 'both'"),
        ({"catch_up": None}, "catch_up is one of none, one, all, not None"),
        ({"jitter": -1}, "jitter is 0 to 86,400 seconds, not -1"),
        ({"jitter": float("nan")}, "jitter is 0 to 86,400 seconds"),
        ({"jitter": float("inf")}, "jitter is 0 to 86,400 seconds"),
        ({"due_as": "no name"}, "due_as is the name of an argument, not 'no name'"),
        ({"due_as": "n", "args": [1]}, "with due_as the arguments are a dict"),
        ({"jitter": "1h"}, "jitter is 0 to 86,400 seconds"),
    ],
)
async def test_invalid_rules_are_refused(
    app: Regente, sql: Sql, change: dict[str, Any], message: str
) -> None:
    """F15."""
    with pytest.raises(InvalidInput, match=message):
        await app.schedule("s", "p", "* * * * *", **change)
    assert many(sql, "SELECT FROM regente.schedules") == []


async def test_unknown_schedules_are_told(app: Regente) -> None:
    """F15."""
    for call in (app.pause_schedule, app.resume_schedule, app.schedule_runs, app.next_runs):
        with pytest.raises(NotFound, match="there is no schedule 'none'"):
            await call("none")
        with pytest.raises(InvalidInput):
            await call("\x00")
