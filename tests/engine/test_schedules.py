"""Cron: each time fires once, with any number of sweeps; once after a downtime."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from regente import InvalidArgs, InvalidInput, NotFound, Regente, UnknownPipeline
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.engine.watchdog.schedules import ScheduleSweep
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Clock, Sql, column, many, one, running, until


class Args(BaseModel):
    n: int


@pytest.fixture(autouse=True)
def ran(registry: Registry) -> list[Any]:
    found: list[Any] = []

    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> None:
        found.append(task.args)

    @registry.pipeline("typed", args=Args)
    async def typed(task: Task[Args]) -> None:
        return None

    return found


async def sweep(app: Regente) -> list[str]:
    return await ScheduleSweep(app.database, 10).run_once()


async def test_a_schedule_fires_at_its_time_and_once(
    app: Regente, open_app: OpenApp, sql: Sql, clock: Clock
) -> None:
    """Q4: with several sweepers at once."""
    clock.stop_at("2026-03-10 03:59:30+00")
    assert await app.schedule("nightly", "p", "0 4 * * *", {"n": 1}, priority=2) == datetime(
        2026, 3, 10, 4, tzinfo=UTC
    )
    assert await sweep(app) == []
    clock.stop_at("2026-03-10 04:00:00+00")
    apps = [app, await open_app(), await open_app()]
    fired = await asyncio.gather(*(sweep(one_of) for one_of in apps for _ in range(3)))
    assert [name for names in fired for name in names] == ["nightly"]
    row = one(sql, "SELECT pipeline, args, priority, key, status::text FROM regente.tasks")
    assert (row["pipeline"], row["args"], row["priority"], row["status"]) == (
        "p",
        {"n": 1},
        2,
        "queued",
    )
    (schedule,) = await app.schedules()
    assert schedule["next_at"] == datetime(2026, 3, 11, 4, tzinfo=UTC)
    assert schedule["last_task"] == one(sql, "SELECT id FROM regente.tasks")["id"]
    assert column(
        sql, "SELECT details ->> 'schedule' FROM regente.events WHERE event = 'task_queued'"
    ) == ["nightly"]


async def test_after_a_downtime_it_fires_once(app: Regente, sql: Sql, clock: Clock) -> None:
    """Q4: a week of missed nights is one run, then the regular times follow."""
    clock.stop_at("2026-03-10 05:00:00+00")
    await app.schedule("nightly", "p", "0 4 * * *")
    clock.stop_at("2026-03-17 12:00:00+00")
    assert [await sweep(app), await sweep(app)] == [["nightly"], []]
    assert (await app.schedules())[0]["next_at"] == datetime(2026, 3, 18, 4, tzinfo=UTC)


async def test_it_follows_the_wall_clock_of_its_time_zone(app: Regente, clock: Clock) -> None:
    """Q4: 04:00 in Berlin is 03:00 UTC in winter and 02:00 UTC in summer."""
    clock.stop_at("2026-03-27 12:00:00+00")
    firsts = []
    await app.schedule("berlin", "p", "0 4 * * *", timezone="Europe/Berlin")
    for _ in range(4):
        next_at = (await app.schedules())[0]["next_at"].astimezone(UTC)
        firsts.append(next_at.strftime("%m-%d %H:%M"))
        clock.stop_at(next_at.isoformat())
        assert await sweep(app) == ["berlin"]
    assert firsts == ["03-28 03:00", "03-29 02:00", "03-30 02:00", "03-31 02:00"]


async def test_the_hour_that_does_not_exist_and_the_one_that_comes_twice(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """Q4: 02:30 fires once on each of the two days on which the clock is changed."""
    clock.stop_at("2026-03-28 12:00:00+00")
    await app.schedule("gap", "p", "30 2 * * *", timezone="Europe/Berlin")
    clock.stop_at("2026-03-29 12:00:00+00")
    assert [await sweep(app), await sweep(app)] == [["gap"], []]
    clock.stop_at("2026-10-24 12:00:00+00")
    await sweep(app)
    before = one(sql, "SELECT count(*) FROM regente.tasks")["count"]
    for moment in (
        "2026-10-25 00:29:00+00",
        "2026-10-25 00:30:00+00",
        "2026-10-25 01:30:00+00",
        "2026-10-25 02:00:00+00",
    ):
        clock.stop_at(moment)
        await sweep(app)
    assert one(sql, "SELECT count(*) FROM regente.tasks")["count"] == before + 1


async def test_scheduling_again_replaces_without_firing_twice(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """Q4: each deploy repeats the call; a due time stays due, changes are stored."""
    clock.stop_at("2026-03-10 03:59:00+00")
    await app.schedule("s", "p", "0 4 * * *", {"n": 1})
    clock.stop_at("2026-03-10 04:00:30+00")
    await app.schedule("s", "p", "0 4 * * *", {"n": 2})
    assert await sweep(app) == ["s"], "due before the deploy, still due after it"
    assert one(sql, "SELECT args FROM regente.tasks")["args"] == {"n": 2}
    await app.schedule("s", "p", "0 5 * * *")
    assert (await app.schedules())[0]["next_at"] == datetime(2026, 3, 10, 5, tzinfo=UTC)


async def test_a_removed_schedule_no_longer_fires(app: Regente, clock: Clock) -> None:
    """Q4: a second removal reports that there is none."""
    await app.schedule("s", "p", "* * * * *")
    await app.unschedule("s")
    clock.advance(hours=1)
    assert (await sweep(app), await app.schedules()) == ([], [])
    with pytest.raises(NotFound, match="there is no schedule 's'"):
        await app.unschedule("s")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"cron": "nonsense"}, InvalidInput, "is not a cron expression"),
        ({"cron": "61 * * * *"}, InvalidInput, "is not a cron expression"),
        ({"cron": ""}, InvalidInput, "is not a cron expression"),
        ({"cron": "0 0 30 2 *"}, InvalidInput, "is not a cron expression that ever fires"),
        ({"timezone": "Mars/Olympus"}, InvalidInput, "'Mars/Olympus' is not a time zone"),
        ({"timezone": "../etc/passwd"}, InvalidInput, "is not a time zone"),
        ({"pipeline": "nope"}, UnknownPipeline, "no pipeline is called 'nope'"),
        (
            {"pipeline": "typed", "args": {"n": "x"}},
            InvalidArgs,
            "n: Input should be a valid integer",
        ),
        ({"priority": 99_999}, InvalidInput, "priority 99999 is out of range"),
        ({"name": ""}, InvalidInput, "name"),
        ({"name": "a\x00"}, InvalidInput, "name"),
        ({"name": "n" * 300}, InvalidInput, "name"),
    ],
)
async def test_an_invalid_schedule_is_refused_and_not_stored(
    app: Regente, sql: Sql, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    """F15, Q4: at the call, not at four in the morning."""
    call: dict[str, Any] = {"name": "s", "pipeline": "p", "cron": "0 4 * * *", **change}
    with pytest.raises(error, match=message):
        await app.schedule(**call)
    assert many(sql, "SELECT 1 FROM regente.schedules") == []


async def test_a_broken_schedule_does_not_hold_up_the_others(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """Z8: a row that was edited by SQL."""
    for name in ("a", "broken", "c"):
        await app.schedule(name, "p", "* * * * *")
    sql.execute("UPDATE regente.schedules SET cron = 'nonsense' WHERE name = 'broken'")
    clock.advance(minutes=2)
    assert sorted(await sweep(app)) == ["a", "c"]
    assert await sweep(app) == []
    assert column(
        sql, "SELECT details ->> 'schedule' FROM regente.events WHERE event = 'schedule_disabled'"
    ) == ["broken"]
    await app.schedule("broken", "p", "* * * * *")
    clock.advance(minutes=2)
    assert "broken" in await sweep(app), "put right, it fires again"


async def test_a_runner_sweeps_by_itself(app: Regente, clock: Clock, ran: list[Any]) -> None:
    """Q4: no other process is needed."""
    await app.schedule("s", "p", "* * * * *", {"by": "cron"})
    clock.advance(minutes=2)
    async with running(app):
        await until(lambda: ran == [{"by": "cron"}])
