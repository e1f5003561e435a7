"""Limits of lanes, exactly: concurrency under races, rate by the database's clock, politeness,
breakers, and what operators do."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from regente import Blocked, InvalidInput, LaneLimits, NotFound, Regente, Throttled
from regente.engine.lane_watch import LaneWatch
from regente.engine.lanes import look_at_lanes
from regente.engine.outcome import Completed, Ended, Failure
from regente.engine.pipeline import Registry
from regente.engine.queries import query
from regente.engine.registration import register_pipelines
from regente.engine.task import Task
from regente.engine.task_store import Claim, Completion, Settlement, TaskStore
from regente.engine.watchdog.lanes import sweep_lanes
from tests.engine.helpers import Clock, Sql, SqlRunner, column, one, running, status_is, until

Args = dict[str, Any]
START = "2100-01-01 00:00:00+00"


class Lane:
    """A lane `a` of pipeline `p`, whose tasks are claimed and ended by the test."""

    def __init__(self, app: Regente, sql: Sql, clock: Clock) -> None:
        self.app, self.sql, self.clock = app, sql, clock
        clock.stop_at(START)
        self.store = TaskStore(app.database, SqlRunner.register(sql, ["p"], 1e9).id)
        self.store.start()
        self.watch = LaneWatch(app.database.fetch, lambda *_: None)

    async def fill(self, count: int, lane: str = "a", **options: Any) -> list[int]:
        ids = await self.app.enqueue_many("p", [{} for _ in range(count)], lane=lane, **options)
        await self.look(lane)
        return ids

    async def look(self, lane: str = "a") -> None:
        await look_at_lanes(self.app.database.fetch, [(lane, "p")])

    def at(self, seconds: float) -> None:
        self.clock.stop_at(f"2100-01-01 00:{int(seconds // 60):02}:{seconds % 60:09.6f}+00")

    async def claim(self, free: int = 100) -> list[Claim]:
        found = await self.store.claim_lanes({"p": free}, free, 50)
        await look_at_lanes(self.app.database.fetch, found.to_look_at)
        return found.claims

    async def end(self, claim: Claim, error: Exception | None = None) -> None:
        """As a runner ends an attempt."""
        outcome: Completed | Ended = Completed(None)
        if isinstance(error, Throttled):
            failure = Failure("throttled", error.code, str(error))
            outcome = Ended(
                "queued", "task_throttled", delay_seconds=error.retry_after, failure=failure
            )
        elif error is not None:
            kind = "blocked" if isinstance(error, Blocked) else "transient"
            failure = Failure(kind, "X", str(error))  # type: ignore[arg-type]
            outcome = Ended("queued", "task_retried", 1, 0.0, failure)
        if isinstance(outcome, Completed):
            assert await self.store.finished.write(Completion(claim, outcome, None))
        else:
            assert await self.store.settled.write(Settlement(claim, outcome))
        self.watch.ended(claim, outcome)
        await self.watch.flush()

    def events(self) -> list[str]:
        return column(
            self.sql,
            "SELECT event FROM regente.events WHERE event LIKE 'lane%%' ORDER BY txid, id",
        )


@pytest.fixture
async def lane(app: Regente, sql: Sql, clock: Clock, registry: Registry) -> Any:
    found = Lane(app, sql, clock)
    limits = LaneLimits(breaker=0)
    registry.pipeline("p", lane_limits=limits)(never)
    await declare(app, registry)
    yield found
    await found.store.stop()


async def declare(app: Regente, registry: Registry) -> None:
    every = [found for name in registry.names if (found := registry.get(name))]
    await register_pipelines(app.database.fetch, every)


async def never(task: Task[Args]) -> None:
    """The tests play the pipeline."""


async def test_concurrency(lane: Lane) -> None:
    """Q2: an end makes room for one, a new limit counts at once."""
    await lane.fill(20)
    await lane.app.lanes.set("a", concurrency=3)
    first = await lane.claim()
    assert len(first) == 3
    assert await lane.claim() == []
    assert (await lane.app.lanes.show("a")).status == "full"
    await lane.end(first[0])
    assert len(await lane.claim()) == 1
    await lane.app.lanes.set("a", concurrency=5)
    assert len(await lane.claim()) == 2
    await lane.app.lanes.set("a", concurrency=None)
    assert len(await lane.claim(4)) == 4


async def test_a_stale_snapshot_does_not_exceed_the_limit(lane: Lane, sql: Sql) -> None:
    """Q2, I8: a claim whose snapshot was taken before another one filled the lane, and which locks
    the lane after that one's commit, counts what runs by then."""
    await lane.fill(20)
    await lane.app.lanes.set("a", concurrency=2)
    sql.execute(
        "CREATE OR REPLACE FUNCTION regente.clock() RETURNS timestamptz LANGUAGE plpgsql STABLE "
        "AS $$ BEGIN PERFORM pg_advisory_lock_shared(4711); "
        "PERFORM pg_advisory_unlock_shared(4711); RETURN timestamptz '2100-01-01'; END $$"
    )
    sql.execute("SELECT pg_advisory_lock(4711)")
    late = asyncio.ensure_future(lane.store.claim_lanes({"p": 9}, 9, 50))
    blocked = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = (%s)"
    database = one(sql, "SELECT current_database() AS name")["name"]
    await until(lambda: sql.execute(blocked, (database,)).fetchone())
    runner = lane.store.runner_id
    sql.execute(
        "UPDATE regente.tasks SET status = 'running', attempt = 1, runner_id = %s WHERE id IN "
        "(SELECT id FROM regente.tasks WHERE lane = 'a' ORDER BY id LIMIT 2)",
        (runner,),
    )
    sql.execute("SELECT pg_advisory_unlock(4711)")
    assert (await late).claims == []


async def test_a_lane_that_another_claim_has_locked_is_left(lane: Lane, holder: Sql) -> None:
    """Q2: the loser takes other lanes and does not wait."""
    await lane.fill(3)
    await lane.fill(3, "b")
    holder.execute("SELECT FROM regente.lanes WHERE name = 'a' FOR UPDATE")
    assert {claim.lane for claim in await lane.claim()} == {"b"}
    holder.rollback()
    assert {claim.lane for claim in await lane.claim()} == {"a"}


async def test_an_end_that_meets_a_claim_is_not_missed(lane: Lane, holder: Sql) -> None:
    """Q2: the claim counts the running task, then the task ends and finds the lane still
    ready, then the claim commits that it is full: it looks again."""
    await lane.fill(5)
    await lane.app.lanes.set("a", concurrency=1)
    [first] = await lane.claim()
    lane.sql.execute("UPDATE regente.lane_queues SET ready_at = regente.clock()")
    params = {
        "pipelines": "{p}",
        "limits": "{9}",
        "lanes": 9,
        "quantum": 8,
        "free": 9,
        "runner_id": lane.store.runner_id,
    }
    rows = holder.execute(query("claim_lanes"), params).fetchall()
    assert [row["lane"] for row in rows if row["id"] is None and row["lane"]] == ["a"]
    await lane.end(first)
    holder.commit()
    assert await lane.claim() == []
    await look_at_lanes(lane.app.database.fetch, [("a", "p")])  # as the other runner does
    assert len(await lane.claim()) == 1


async def test_an_enqueue_that_meets_a_claim_is_not_missed(lane: Lane, holder: Sql) -> None:
    """O7: as above, for the queue that the claim finds empty."""
    [_] = await lane.fill(1)
    [_] = await lane.claim(1)
    lane.sql.execute("UPDATE regente.lane_queues SET ready_at = regente.clock()")
    params = {
        "pipelines": "{p}",
        "limits": "{9}",
        "lanes": 9,
        "quantum": 8,
        "free": 9,
        "runner_id": lane.store.runner_id,
    }
    rows = holder.execute(query("claim_lanes"), params).fetchall()
    assert [row["lane"] for row in rows if row["id"] is None and row["lane"]] == ["a"]
    lane.sql.execute(
        "INSERT INTO regente.tasks (pipeline, lane, run_at, lane_run_at) "
        "VALUES ('p', 'a', regente.in_lane(), regente.clock())"
    )
    holder.commit()
    await look_at_lanes(lane.app.database.fetch, [("a", "p")])
    assert len(await lane.claim()) == 1


async def test_rate(lane: Lane) -> None:
    """Q2: a burst, then one every half second, over a minute of the database's clock; a pause saves
    no more than the burst."""
    await lane.fill(1000)
    await lane.app.lanes.set("a", rate=2.0, burst=4)
    assert len(await lane.claim()) == 4
    started = 0
    for tick in range(1, 601):
        lane.at(tick / 10)
        started += len(await lane.claim())
    assert started == 120
    lane.at(100)
    assert len(await lane.claim()) == 4
    lane.at(100.49)
    assert await lane.claim() == []
    lane.at(100.5)
    assert len(await lane.claim()) == 1
    [(pipeline, due_seconds)] = (await lane.store.survey_lanes(["p"]))[0]
    assert (pipeline, round(due_seconds, 6)) == ("p", 0.5)


async def test_a_rate_below_one(lane: Lane) -> None:
    """Q2: one every ten seconds; a new rate counts at once."""
    await lane.fill(20)
    await lane.app.lanes.set("a", rate=0.1)
    counts = []
    for second in range(41):
        lane.at(second)
        counts.append(len(await lane.claim()))
    assert [second for second, count in enumerate(counts) if count] == [0, 10, 20, 30, 40]
    await lane.app.lanes.set("a", rate=None)
    assert len(await lane.claim(7)) == 7


async def test_the_limits_of_two_pipelines_are_one(
    lane: Lane, registry: Registry, app: Regente
) -> None:
    """Q2: a lane is shared by every pipeline whose tasks name it."""
    registry.pipeline("q")(never)
    await declare(app, registry)
    await lane.fill(20)
    await app.enqueue_many("q", [{}] * 20, lane="a")
    await look_at_lanes(app.database.fetch, [("a", "q")])
    await app.lanes.set("a", concurrency=18)
    found = []
    for second in range(9):
        lane.at(second)
        claimed = await lane.store.claim_lanes({"p": 4, "q": 4}, 4, 50)
        await look_at_lanes(app.database.fetch, claimed.to_look_at)
        found += claimed.claims
    assert len(found) == 18
    assert {claim.pipeline for claim in found} == {"p", "q"}


async def test_the_clock_may_stand_still_between_claims(lane: Lane) -> None:
    """I8: no lane is skipped for ever."""
    for name in "abcdef":
        await lane.fill(3, name)
    found = [claim.lane for _ in range(18) for claim in await lane.claim(1)]
    assert sorted(filter(None, found)) == sorted("abcdef" * 3)


async def test_throttled_parks_the_lane(lane: Lane) -> None:
    """Q9: not only the task; other lanes go on."""
    await lane.fill(5)
    await lane.fill(1, "b")
    [first] = await lane.claim(1)
    await lane.end(first, Throttled(retry_after=30))
    assert {claim.lane for claim in await lane.claim()} == {"b"}
    shown = await lane.app.lanes.show("a")
    assert (shown.status, shown.parked_because) == ("parked", "throttled")
    lane.at(29.9)
    assert await lane.claim() == []
    lane.at(30)
    assert len(await lane.claim()) == 5
    assert lane.events() == ["lane_parked"]


async def test_the_engine_s_own_waits_do_not_park(lane: Lane) -> None:
    """I10: a lost database and a locked row are not the lane's fault."""
    await lane.fill(5)
    first, second = await lane.claim(2)
    await lane.end(first, Throttled(retry_after=30, code="DATABASE_UNAVAILABLE"))
    await lane.end(second, Throttled(retry_after=30, code="ROW_LOCKED"))
    assert len(await lane.claim()) == 3
    assert lane.events() == []


async def test_the_rate_falls_and_rises(lane: Lane) -> None:
    """Q9: half, at most once a second, not below the floor; a twentieth for each success."""
    await lane.fill(200)
    await lane.app.lanes.set("a", rate=100.0, min_rate=20.0)
    claims = await lane.claim(60)
    rates = []
    for second, claim in enumerate([*claims[:2], *claims[2:6]]):
        lane.at(max(0, second - 1) * 2)
        await lane.end(claim, Blocked("no"))
        rates.append((await lane.app.lanes.show("a")).rate_now)
    assert rates == [50, 50, 25, 20, 20, 20]
    for claim in claims[6:10]:
        await lane.end(claim)
    assert (await lane.app.lanes.show("a")).rate_now == pytest.approx(40)
    for claim in claims[10:30]:
        await lane.end(claim)
    assert (await lane.app.lanes.show("a")).rate_now == 100
    assert lane.events() == ["lane_set"] + ["lane_slowed"] * 3 + ["lane_raised"] * 16


async def test_the_breaker(lane: Lane) -> None:
    """Q9: opens after a run of failures, probes with one task, opens for longer, closes."""
    await lane.fill(50)
    await lane.app.lanes.set("a", breaker=3)
    claims = await lane.claim(10)
    for claim in claims[:2]:
        await lane.end(claim, RuntimeError("no"))
    await lane.end(claims[2])
    for claim in claims[3:6]:
        assert (await lane.app.lanes.show("a")).breaker_state == "closed"
        await lane.end(claim, RuntimeError("no"))
    assert (await lane.app.lanes.show("a")).breaker_state == "open"
    assert await lane.claim() == []
    for claim in claims[6:]:
        await lane.end(claim)
    assert (await lane.app.lanes.show("a")).breaker_state == "open"
    lane.at(30)
    [probe] = await lane.claim()
    assert await lane.claim() == []
    assert (await lane.app.lanes.show("a")).breaker_state == "probing"
    await lane.end(probe, RuntimeError("no"))
    lane.at(89.9)
    assert await lane.claim() == []
    lane.at(90)
    [probe] = await lane.claim()
    await lane.end(probe)
    assert (await lane.app.lanes.show("a")).breaker_state == "closed"
    assert len(await lane.claim(20)) == 20
    assert [event for event in lane.events() if event != "lane_set"] == [
        "lane_breaker_opened",
        "lane_probing",
        "lane_breaker_opened",
        "lane_probing",
        "lane_breaker_closed",
    ]


async def test_a_probe_that_dies_is_made_again(lane: Lane, sql: Sql) -> None:
    """I8: its runner is lost; a sweep finds the lane."""
    await lane.fill(5)
    await lane.app.lanes.set("a", breaker=1)
    [first] = await lane.claim(1)
    await lane.end(first, RuntimeError("no"))
    lane.at(30)
    [probe] = await lane.claim()
    sql.execute(
        "UPDATE regente.tasks SET status = 'queued', runner_id = NULL WHERE id = %s", (probe.id,)
    )
    assert await lane.claim() == []
    await sweep_lanes(lane.app.database)
    assert len(await lane.claim()) == 1


async def test_operators_park_and_open(lane: Lane) -> None:
    """O16: until opened, or for a time; each is an event with who did it."""
    await lane.fill(5)
    lanes = lane.app.lanes
    assert (await lanes.park("a", by="ana")).status == "parked"
    assert await lane.claim() == []
    assert (await lanes.show("a")).parked_until is None
    await lanes.open("a", by="ana")
    assert len(await lane.claim(1)) == 1
    parked = await lanes.park("a", seconds=60, reason="maintenance")
    assert parked.parked_until is not None
    assert await lane.claim() == []
    lane.at(59)
    assert await lane.claim() == []
    await lanes.set("a", weight=2)
    assert (await lanes.show("a")).own == ["weight"]
    lane.at(60)
    assert len(await lane.claim()) == 4
    assert lane.events() == ["lane_parked", "lane_opened", "lane_parked", "lane_set"]
    by = "SELECT details ->> 'by' AS by FROM regente.events WHERE event = 'lane_opened'"
    assert column(lane.sql, by) == ["ana"]


async def test_what_operators_may_not_do(lane: Lane) -> None:
    """O16."""
    lanes = lane.app.lanes
    for refused in (
        lanes.show("none"),
        lanes.park("none"),
        lanes.open("none"),
        lanes.set("none", rate=1.0),
    ):
        with pytest.raises(NotFound, match="there is no lane 'none'"):
            await refused
    wrong: list[dict[str, Any]] = [
        {},
        {"concurrency": 0},
        {"rate": 0},
        {"rate": float("nan")},
        {"rate": float("inf")},
        {"weight": 1001},
        {"burst": 1.5},
        {"concurrency": True},
        {"breaker": -1},
    ]
    for limits in wrong:
        with pytest.raises(InvalidInput):
            await lanes.set("a", **limits)
    for seconds in (0, -1, 1e12, float("nan")):
        with pytest.raises(InvalidInput):
            await lanes.park("a", seconds=seconds)
    assert (await lanes.set("new", pipeline="p", rate=1.0)).rate == 1.0


async def test_why_names_place_and_estimate(lane: Lane) -> None:
    """O16: full, parked, slow."""
    ids = await lane.fill(40)
    await lane.app.lanes.set("a", concurrency=4)
    why = lane.app.why
    assert (await why(ids[39])).code == "NEXT"
    for second in range(0, 21, 5):
        lane.at(second)
        for claim in await lane.claim():
            await lane.end(claim)
    await lane.claim()
    found = await why(ids[39])
    assert found.code == "LANE_FULL"
    assert found.summary.startswith("The lane a is full: 4 of 4 running, 15 before you")
    assert "about" in found.summary
    await lane.app.lanes.park("a", reason="maintenance")
    assert (await why(ids[39])).summary == (
        "The lane a is parked until it is opened: maintenance; 15 before you."
    )
    await lane.app.lanes.open("a")
    await lane.app.lanes.set("a", concurrency=None, rate=0.5, burst=1)
    lane.at(30)
    await lane.claim()
    slow = await why(ids[39])
    assert slow.code == "LANE_RATE"
    assert slow.summary == ("The lane a starts 0.5 tasks per second: 14 before you, about 30 s.")


async def test_lanes_are_listed_and_forgotten(lane: Lane, sql: Sql) -> None:
    """O16: by name, in pages; unused ones go, those with settings stay."""
    for name in ("b", "a", "c", "d"):
        await lane.fill(1, name)
    lanes = lane.app.lanes
    assert [one.name for one in await lanes.list()] == ["a", "b", "c", "d"]
    assert [one.name for one in await lanes.list(after="b", limit=1)] == ["c"]
    assert [one.name for one in await lanes.list(search="d")] == ["d"]
    assert await lanes.list(pipeline="q") == []
    for claim in await lane.claim():
        await lane.end(claim)
    await lane.fill(1, "d")
    await lanes.set("c", weight=2)
    lane.clock.stop_at("2100-02-01 00:00:00+00")
    forgotten = await lane.app.database.fetch("forget_lanes", {"keep_seconds": 86_400.0})
    assert sorted(row[0] for row in forgotten) == ["a", "b"]
    assert [one.name for one in await lanes.list()] == ["c", "d"]


async def test_suspects_run_alone_and_within_the_limits(lane: Lane, sql: Sql) -> None:
    """F7: one at a time, not in a full, parked or emptied lane."""
    ids = await lane.fill(3)
    sql.execute("UPDATE regente.tasks SET crashes = 2 WHERE id = ANY (%s)", (ids[:2],))
    await lane.app.lanes.set("a", concurrency=1)
    [healthy] = await lane.claim()
    assert healthy.id == ids[2]
    assert await lane.store.claim_lane_suspect(["p"]) == []
    await lane.end(healthy)
    assert await lane.claim() == []
    assert (await lane.store.survey_lanes(["p"]))[1] == ["p"]
    [suspect] = await lane.store.claim_lane_suspect(["p"])
    assert suspect.id == ids[0]
    assert await lane.store.claim_lane_suspect(["p"]) == []
    await lane.end(suspect)
    await lane.app.lanes.park("a")
    assert await lane.store.claim_lane_suspect(["p"]) == []
    await lane.app.lanes.open("a")
    assert len(await lane.store.claim_lane_suspect(["p"])) == 1


async def test_a_runner_without_a_lease_claims_nothing_from_lanes(lane: Lane, sql: Sql) -> None:
    """I4."""
    await lane.fill(3)
    sql.execute("UPDATE regente.runners SET lease_until = regente.clock()")
    assert await lane.claim() == []
    sql.execute("UPDATE regente.tasks SET crashes = 2")
    assert await lane.store.claim_lane_suspect(["p"]) == []


async def test_a_task_cannot_leave_its_lane_by_hand(lane: Lane, sql: Sql) -> None:
    """I5: SQL that makes it due in the pipeline's own queue is refused."""
    [task_id] = await lane.fill(1)
    for change in ("run_at = now()", "lane = NULL", "lane_run_at = NULL"):
        with pytest.raises(psycopg.errors.CheckViolation):
            sql.execute(f"UPDATE regente.tasks SET {change} WHERE id = %s", (task_id,))


async def test_the_whole_way_with_a_runner(app: Regente, registry: Registry, sql: Sql) -> None:
    """Q9: a server that throttles: the lane waits, and all is done."""
    calls: list[int] = []

    @registry.pipeline("polite", lane=lambda args: "shop", lane_limits=LaneLimits(concurrency=2))
    async def polite(task: Task[Args]) -> None:
        calls.append(task.id)
        if len(calls) == 1:
            raise Throttled(retry_after=0.3)

    ids = await app.enqueue_many("polite", [{} for _ in range(10)])
    async with running(app):
        for task_id in ids:
            await status_is(app, task_id, "completed")
    assert column(sql, "SELECT event FROM regente.events WHERE event LIKE 'lane%%'") == [
        "lane_parked"
    ]
