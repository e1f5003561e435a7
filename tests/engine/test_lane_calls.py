"""Calls of attempts in lanes: places, rate, politeness and breakers as for tasks, and what a crash
leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from regente import (
    Blocked,
    Fatal,
    InvalidInput,
    Lane,
    LaneBusy,
    LaneLimits,
    Regente,
    Retry,
    Throttled,
    Transient,
)
from regente.engine import lane_calls
from regente.engine.errors import LeaseLost
from regente.engine.lane_calls import LaneCall, LaneCalls
from regente.engine.lane_watch import LaneWatch
from regente.engine.lanes import look_at_lanes
from regente.engine.outcome import Completed
from regente.engine.pipeline import Registry
from regente.engine.registration import register_pipelines
from regente.engine.task import Task
from regente.engine.task_store import Claim, Completion, TaskStore
from regente.engine.watchdog.lanes import sweep_lanes
from tests.engine.helpers import (
    Clock,
    Sql,
    SqlRunner,
    claims_of,
    column,
    many,
    one,
    running,
    status_is,
    task_row,
    until,
)

START = "2100-01-01 00:00:00+00"
FAST = Retry(max_attempts=3, first=0.01, jitter=False)
TWO = Lane("shop", LaneLimits(concurrency=2, breaker=0))


class Calls:
    """Attempts at tasks of pipeline `p` that make calls, as the test says, under a clock that the
    test moves."""

    def __init__(self, app: Regente, sql: Sql, clock: Clock) -> None:
        self.app, self.sql, self.clock = app, sql, clock
        clock.stop_at(START)
        self.store = TaskStore(app.database, SqlRunner.register(sql, ["p"], 1e9).id)
        self.store.start()
        self.watch = LaneWatch(app.database.fetch, lambda *_: None)
        self.calls = LaneCalls(app.database.fetch, self.store.runner_id, self.watch)

    async def attempts(self, count: int, lane: str | None = None) -> list[Claim]:
        await self.app.enqueue_many("p", [{} for _ in range(count)], lane=lane)
        if lane is None:
            return await claims_of(self.store, "p", count)
        await look_at_lanes(self.app.database.fetch, [(lane, "p")])
        return (await self.store.claim_lanes({"p": count}, count, 50)).claims

    async def enter(self, claim: Claim, lane: Lane = TWO) -> LaneCall | None:
        """None when there is no place."""
        try:
            return await self.calls.enter(claim, lane, 0.0, no_beat)
        except LaneBusy:
            await self.watch.flush()
            return None

    async def leave(self, call: LaneCall | None, error: BaseException | None = None) -> None:
        assert call is not None
        await self.calls.leave(call, error)
        await self.watch.flush()

    def at(self, seconds: float) -> None:
        self.clock.stop_at(f"2100-01-01 00:{int(seconds // 60):02}:{seconds % 60:09.6f}+00")

    def events(self) -> list[str]:
        return column(
            self.sql,
            "SELECT event FROM regente.events WHERE event LIKE 'lane%%' ORDER BY txid, id",
        )


async def no_beat() -> None:
    """The tests' attempts do not stall."""


@pytest.fixture
async def calls(app: Regente, sql: Sql, clock: Clock, registry: Registry) -> AsyncIterator[Calls]:
    async def never(task: Task) -> None:
        """The tests play the pipeline."""

    registry.pipeline("p", lane_limits=LaneLimits(breaker=0))(never)
    await register_pipelines(app.database.fetch, [registry.get("p")])  # type: ignore[list-item]
    found = Calls(app, sql, clock)
    yield found
    await found.store.stop()


async def test_a_call_has_not_ended_before_its_lane_is_parked(calls: Calls) -> None:
    """Q2: the end of the attempt makes room for the call of another runner."""
    [claim] = await calls.attempts(1)
    call = await calls.enter(claim)
    assert call is not None
    await calls.calls.leave(call, Throttled("slowly", retry_after=60))
    assert (await calls.app.lanes.show("shop")).status == "parked"


async def test_calls_hold_the_places_of_their_lane(calls: Calls) -> None:
    """Q2: an end makes room for one, and a limit that is set counts at once."""
    claims = await calls.attempts(5)
    first, second = [await calls.enter(claim) for claim in claims[:2]]
    assert second is not None
    assert await calls.enter(claims[2]) is None
    shown = await calls.app.lanes.show("shop")
    assert (shown.status, shown.running, shown.concurrency, shown.own) == ("full", 2, 2, [])
    await calls.leave(first)
    assert await calls.enter(claims[2]) is not None
    await calls.app.lanes.set("shop", concurrency=3)
    assert await calls.enter(claims[3]) is not None
    assert await calls.enter(claims[4]) is None
    assert len(many(calls.sql, "SELECT FROM regente.lane_calls")) == 3


async def test_calls_and_tasks_of_a_lane_share_its_places(calls: Calls) -> None:
    """Q2: a claim counts the calls, a call counts the tasks, and an end of one makes room for the
    other."""
    [caller] = await calls.attempts(1)
    call = await calls.enter(caller)
    [_] = await calls.attempts(3, "shop")
    assert await calls.enter(caller) is None
    await calls.leave(call)
    found = await calls.store.claim_lanes({"p": 9}, 9, 9)
    assert len(found.claims) == 1
    assert await calls.enter(caller) is None


async def test_a_call_counts_no_longer_than_its_attempt(calls: Calls) -> None:
    """F1, I8: a place that a crash has left behind is free when the task is taken back, and its row
    is deleted by a sweep."""
    claims = await calls.attempts(3)
    for claim in claims[:2]:
        assert await calls.enter(claim) is not None
    assert await calls.enter(claims[2]) is None
    lost = claims[0]
    calls.sql.execute(
        "UPDATE regente.tasks SET status = 'queued', runner_id = NULL WHERE id = %s", (lost.id,)
    )
    assert await calls.enter(claims[2]) is not None
    calls.sql.execute(
        "UPDATE regente.tasks SET status = 'running', attempt = 2, runner_id = %s WHERE id = %s",
        (calls.store.runner_id, lost.id),
    )
    again = lost._replace(attempt=2)
    assert await calls.enter(again) is None
    await sweep_lanes(calls.app.database)
    rows = many(calls.sql, "SELECT task_id, attempt FROM regente.lane_calls ORDER BY task_id")
    assert [(row["task_id"], row["attempt"]) for row in rows] == [
        (claims[1].id, 1),
        (claims[2].id, 1),
    ]


async def test_an_attempt_that_lost_its_task_gets_no_place(calls: Calls) -> None:
    """I3, I4."""
    [claim] = await calls.attempts(1)
    with pytest.raises(LeaseLost):
        await calls.enter(claim._replace(attempt=claim.attempt + 1))
    assert await calls.store.finished.write(Completion(claim, Completed(None), None))
    with pytest.raises(LeaseLost):
        await calls.enter(claim)
    assert many(calls.sql, "SELECT FROM regente.lane_calls") == []


async def test_a_lane_that_another_session_has_locked_is_asked_again(
    calls: Calls, holder: Sql
) -> None:
    """Q2: the loser does not take the lane's place past the winner's count."""
    claims = await calls.attempts(3)
    assert await calls.enter(claims[0]) is not None
    holder.execute("SELECT FROM regente.lanes WHERE name = 'shop' FOR UPDATE")
    entering = asyncio.ensure_future(calls.calls.enter(claims[1], TWO, 60.0, no_beat))
    await asyncio.sleep(0.1)
    assert not entering.done()
    holder.execute(
        "INSERT INTO regente.lane_calls (task_id, attempt, number, lane, entered_at) "
        "VALUES (%s, 1, 99, 'shop', regente.clock())",
        (claims[2].id,),
    )
    holder.commit()
    await until(lambda: many(calls.sql, "SELECT FROM regente.lane_calls WHERE entered_at IS NULL"))
    assert not entering.done()
    calls.sql.execute("DELETE FROM regente.lane_calls WHERE number = 99")
    await entering


async def test_a_stale_snapshot_does_not_exceed_the_limit(calls: Calls, sql: Sql) -> None:
    """Q2, I8: a call whose statement began before the last place was given, and which counts after
    that one's commit, counts it."""
    claims = await calls.attempts(3)
    assert await calls.enter(claims[0]) is not None
    definition = "SELECT pg_get_functiondef('regente.running_in_lanes'::regproc) AS text"
    text = one(sql, definition)["text"]
    sql.execute(text.replace("running_in_lanes", "counted_in_lanes"))
    waits = "PERFORM pg_advisory_lock_shared(4711), pg_advisory_unlock_shared(4711);"
    try:
        # Between the statement's own snapshot and the count.
        sql.execute(
            "CREATE OR REPLACE FUNCTION regente.running_in_lanes(lanes text[]) "
            "RETURNS TABLE (lane text, running bigint) LANGUAGE plpgsql VOLATILE AS $$ BEGIN "
            f"{waits} RETURN QUERY SELECT * FROM regente.counted_in_lanes(lanes); END $$"
        )
        sql.execute("SELECT pg_advisory_lock(4711)")
        late = asyncio.ensure_future(calls.enter(claims[1]))
        blocked = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = (%s)"
        database = one(sql, "SELECT current_database() AS name")["name"]
        await until(lambda: sql.execute(blocked, (database,)).fetchone())
        sql.execute(
            "INSERT INTO regente.lane_calls (task_id, attempt, number, lane, entered_at, asked_at) "
            "VALUES (%s, 1, 99, 'shop', '2100-01-01', '2100-01-01')",
            (claims[2].id,),
        )
        sql.execute("SELECT pg_advisory_unlock(4711)")
        assert await late is None
    finally:
        sql.execute(text)
        sql.execute("DROP FUNCTION regente.counted_in_lanes(text[])")


async def test_an_answer_that_got_lost_costs_no_second_place(calls: Calls) -> None:
    """F3: the same call asks again: it has its place, and takes no second token."""
    [claim] = await calls.attempts(1)
    lane = Lane("shop", LaneLimits(concurrency=1, rate=0.5, breaker=0))
    call = await calls.enter(claim, lane)
    assert call is not None
    before = one(calls.sql, "SELECT tokens_until FROM regente.lanes")
    params = {
        "lane": "shop",
        "task_id": claim.id,
        "attempt": claim.attempt,
        "runner_id": calls.store.runner_id,
        "number": call.number,
        "is_noted": False,
    }
    [answer] = await calls.app.database.fetch("enter_lane", params)
    assert lane_calls.Answer(*answer).has_entered
    assert one(calls.sql, "SELECT tokens_until FROM regente.lanes") == before
    assert len(many(calls.sql, "SELECT FROM regente.lane_calls")) == 1


async def test_calls_start_at_the_rate_of_their_lane(calls: Calls) -> None:
    """Q2: a burst, then one every half second, over a minute of the database's clock."""
    [claim] = await calls.attempts(1)
    lane = Lane("shop", LaneLimits(rate=2.0, burst=3, breaker=0))
    starts = []
    for tick in range(240):
        calls.at(tick / 4)
        while (call := await calls.enter(claim, lane)) is not None:
            starts.append(tick / 4)
            await calls.leave(call)
    assert starts[:3] == [0.0, 0.0, 0.0]
    assert starts[3:] == [number / 2 for number in range(1, len(starts) - 2)]
    assert len(starts) == 3 + 119


async def test_throttled_parks_the_lane_of_the_call(calls: Calls) -> None:
    """Q9: for other calls and tasks too; and halves its rate."""
    claims = await calls.attempts(2)
    lane = Lane("shop", LaneLimits(rate=100.0, min_rate=1.0, breaker=0))
    await calls.leave(await calls.enter(claims[0], lane), Throttled("slow", retry_after=20.0))
    with pytest.raises(LaneBusy, match="is parked: throttled") as caught:
        await calls.calls.enter(claims[1], lane, 5.0, no_beat)
    assert caught.value.is_parked
    assert 20.0 <= caught.value.retry_after <= 30.0
    assert await calls.attempts(1, "shop") == []
    calls.at(20.1)
    assert await calls.enter(claims[1], lane) is not None
    assert (await calls.app.lanes.show("shop")).rate_now == 50.0
    assert calls.events() == ["lane_parked", "lane_slowed"]


async def test_failed_calls_open_the_breaker_and_one_call_closes_it(calls: Calls) -> None:
    """Q9."""
    claims = await calls.attempts(4)
    lane = Lane("shop", LaneLimits(breaker=2))
    for claim, error in zip(claims, (Transient("x"), Blocked("y")), strict=False):
        await calls.leave(await calls.enter(claim, lane), error)
    assert await calls.enter(claims[2], lane) is None
    calls.at(31)
    probe = await calls.enter(claims[2], lane)
    assert probe is not None
    with pytest.raises(LaneBusy, match="tried with one call") as caught:
        await calls.calls.enter(claims[3], lane, 0.0, no_beat)
    assert caught.value.is_parked
    await calls.leave(probe)
    assert await calls.enter(claims[3], lane) is not None
    assert calls.events() == ["lane_breaker_opened", "lane_probing", "lane_breaker_closed"]


@pytest.mark.parametrize("error", [Fatal("no"), asyncio.CancelledError(), InvalidInput("no")])
async def test_what_is_not_the_targets_fault_is_not_told(
    calls: Calls, error: BaseException
) -> None:
    claims = await calls.attempts(1)
    await calls.leave(await calls.enter(claims[0], Lane("shop", LaneLimits(breaker=1))), error)
    assert calls.events() == []
    assert (await calls.app.lanes.show("shop")).failures == 0


async def test_the_limits_of_the_code_are_those_of_its_last_call(calls: Calls) -> None:
    """Q9: an operator's limit wins; a lane of another pipeline keeps that pipeline's limits."""
    [claim] = await calls.attempts(1)
    await calls.enter(claim, Lane("shop", LaneLimits(concurrency=1)))
    await calls.enter(claim, Lane("shop", LaneLimits(concurrency=7, rate=9.0)))
    shown = await calls.app.lanes.show("shop")
    assert (shown.concurrency, shown.rate, shown.breaker) == (7, 9.0, 20)
    await calls.app.lanes.set("shop", concurrency=5)
    await calls.enter(claim, Lane("shop", LaneLimits(concurrency=8)))
    assert (await calls.app.lanes.show("shop")).concurrency == 5
    await calls.app.lanes.set("shop", concurrency=None)
    await calls.enter(claim._replace(pipeline="q"), Lane("shop", LaneLimits(concurrency=9)))
    assert (await calls.app.lanes.show("shop")).concurrency == 8


async def test_a_lane_without_limits_in_the_code_has_those_of_the_pipeline(calls: Calls) -> None:
    [claim] = await calls.attempts(1)
    await calls.enter(claim, Lane("shop"))
    shown = await calls.app.lanes.show("shop")
    assert (shown.concurrency, shown.breaker, shown.status) == (None, None, "running")


async def test_a_lane_that_was_forgotten_is_opened_again(calls: Calls) -> None:
    [claim] = await calls.attempts(1)
    await calls.leave(await calls.enter(claim))
    calls.sql.execute("DELETE FROM regente.lanes")
    call = await calls.calls.enter(claim, TWO, 60.0, no_beat)
    assert (await calls.app.lanes.show("shop")).concurrency == 2
    calls.clock.stop_at("2101-01-01 00:00:00+00")
    params = {"keep_seconds": 86_400.0}
    assert await calls.app.database.fetch("forget_lanes", params) == []
    await calls.leave(call)
    assert await calls.app.database.fetch("forget_lanes", params) == [("shop",)]


async def test_calls_of_a_runner_enter_in_turn(calls: Calls) -> None:
    """Q2: an end lets in the call that has waited longest, and only the first one asks."""
    claims = await calls.attempts(6)
    held = [await calls.enter(claim) for claim in claims[:2]]
    entered: list[int] = []

    async def wait(claim: Claim) -> LaneCall:
        call = await calls.calls.enter(claim, TWO, 60.0, no_beat)
        entered.append(claim.id)
        return call

    waiting = []
    for claim in claims[2:]:
        waiting.append(asyncio.ensure_future(wait(claim)))
        await asyncio.sleep(0)
    noted = "SELECT task_id FROM regente.lane_calls WHERE entered_at IS NULL"
    await until(lambda: many(calls.sql, noted))
    assert column(calls.sql, noted) == [claims[2].id]
    assert (await calls.app.lanes.show("shop")).waiting == 1
    for number, claim in enumerate(claims[2:], start=1):
        await calls.leave(held[number - 1])
        await until(lambda number=number: len(entered) == number)  # type: ignore[misc]
        assert entered[-1] == claim.id
        held.append(await waiting[number - 1])


# In a runner.


async def test_steps_and_blocks_make_their_calls_in_lanes(app: Regente, registry: Registry) -> None:
    """Q2, Q7: `step`, `each` and `in_lane`; a recorded step asks no lane again."""
    limits = {"a": 1, "b": 2, "c": 3, "x": 1}
    now, most = dict.fromkeys(limits, 0), dict.fromkeys(limits, 0)
    full = {name: asyncio.Event() for name in limits}

    async def call(name: str) -> str:
        """Ends when the lane was full once."""
        now[name] += 1
        most[name] = max(most[name], now[name])
        if most[name] >= limits[name]:
            full[name].set()
        await full[name].wait()
        await asyncio.sleep(0.01)
        now[name] -= 1
        return name

    lanes = {name: Lane(name, LaneLimits(concurrency=limits[name])) for name in "abc"}

    @registry.pipeline("p", retry=FAST)
    async def p(task: Task) -> int:
        await task.step("ONE", call, "a", lane=lanes["a"])
        found = await task.each("MANY", ["b", "b", "b", "x"], call, concurrency=4, lane=lanes.get)
        async with task.in_lane(lanes["c"]):
            await call("c")
        if task.attempt == 1:
            raise Transient("again")
        return len(found)

    ids = await app.enqueue_many("p", [{} for _ in range(8)])
    async with running(app):
        for task_id in ids:
            assert await status_is(app, task_id, "completed") == "completed"
    assert {name: most[name] for name in "abc"} == {"a": 1, "b": 2, "c": 3}
    assert [lane.name for lane in await app.lanes.list()] == ["a", "b", "c"]


async def test_a_call_that_finds_no_place_sends_its_task_back_without_a_try(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q9: at once when the lane is parked for longer than a call waits; when it is opened, the task
    goes on with what it has recorded."""
    made: list[str] = []

    async def prepare() -> int:
        made.append("prepared")
        return 1

    async def call() -> int:
        made.append("called")
        return 2

    @registry.pipeline("p", retry=FAST)
    async def p(task: Task) -> int:
        first = await task.step("PREPARE", prepare)
        second = await task.step("CALL", call, lane=Lane("shop"), on_unknown="hold")
        return first + second

    await app.lanes.set("shop", pipeline="p", concurrency=1)
    await app.lanes.park("shop", reason="maintenance")
    task_id = await app.enqueue("p")
    async with running(app):
        await until(lambda: task_row(sql, task_id)["error_code"] == "LANE_BUSY")
        await status_is(app, task_id, "queued")
        why = await app.why(task_id)
        assert "the lane shop is parked: maintenance" in str(why.details["error_message"])
        assert many(sql, "SELECT FROM regente.intents") == []
        await app.lanes.open("shop")
        sql.execute("UPDATE regente.tasks SET run_at = regente.clock()")
        await status_is(app, task_id, "completed")
    row = task_row(sql, task_id)
    assert (row["result"], row["tries"], row["attempt"]) == (3, 0, 2)
    assert made == ["prepared", "called"]


async def test_why_names_the_lane_that_a_call_waits_for(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """O9."""
    lane = Lane("shop", LaneLimits(concurrency=1))
    go = asyncio.Event()

    @registry.pipeline("p")
    async def p(task: Task) -> None:
        async with task.in_lane(lane):
            await go.wait()

    first, second = await app.enqueue_many("p", [{}, {}])
    async with running(app):
        noted = "SELECT task_id FROM regente.lane_calls WHERE entered_at IS NULL"
        await until(lambda: column(sql, noted))
        [waiting] = column(sql, noted)
        why = await app.why(waiting)
        assert why.code == "WAITING_FOR_LANE"
        assert "the lane shop is full: 1 of 1 running, 0 calls before it" in why.summary
        go.set()
        for task_id in (first, second):
            await status_is(app, task_id, "completed")
    await until(lambda: many(sql, "SELECT FROM regente.lane_calls") == [])


async def test_a_call_that_waits_for_long_is_no_stall_and_gives_its_slot_back(
    app: Regente, registry: Registry, monkeypatch: pytest.MonkeyPatch, sql: Sql
) -> None:
    """O11: it waits for half of the time after which the task would be stalled, at most."""
    monkeypatch.setattr(lane_calls, "BUSY_SECONDS", 0.05)
    lane = Lane("shop", LaneLimits(concurrency=1))
    go = asyncio.Event()

    @registry.pipeline("p", stall_after=0.6)
    async def p(task: Task) -> None:
        async with task.in_lane(lane):
            while not go.is_set():
                await task.heartbeat()
                await asyncio.sleep(0.05)

    ids = await app.enqueue_many("p", [{}, {}])
    async with running(app):
        busy = "SELECT code FROM regente.failures"
        await until(lambda: column(sql, busy))
        go.set()
        for task_id in ids:
            await status_is(app, task_id, "completed")
    assert set(column(sql, busy)) == {"LANE_BUSY"}
    assert column(sql, "SELECT tries FROM regente.tasks") == [0, 0]


async def test_a_task_has_the_place_of_its_own_lane(app: Regente, registry: Registry) -> None:
    """Q2: no second place, and no deadlock at a limit of one."""

    @registry.pipeline("p", lane=lambda args: "shop", lane_limits=LaneLimits(concurrency=1))
    async def p(task: Task) -> str:
        async with task.in_lane(Lane("shop")):
            return "called"

    task_id = await app.enqueue("p")
    async with running(app):
        await status_is(app, task_id, "completed")


async def test_a_failed_call_is_told_to_its_lane_and_not_to_that_of_the_task(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q9: a tenant's lane is not parked because a shop is."""

    async def call() -> None:
        raise Throttled("slow down", retry_after=600)

    @registry.pipeline("p", lane=lambda args: "tenant", lane_limits=LaneLimits(rate=100.0))
    async def p(task: Task) -> None:
        await task.step("CALL", call, lane=Lane("shop", LaneLimits()))

    task_id = await app.enqueue("p")
    async with running(app):
        await until(lambda: task_row(sql, task_id)["error_code"] == "THROTTLED")
        await until(
            lambda: (
                one(sql, "SELECT * FROM regente.lanes WHERE name = 'shop'")["failures"] is not None
            )
        )
        await until(
            lambda: (
                column(sql, "SELECT name FROM regente.lanes WHERE parked_until IS NOT NULL")
                == ["shop"]
            )
        )
    tenant = await app.lanes.show("tenant")
    assert (tenant.status, tenant.rate_now) == ("waiting", 100.0)


def test_the_lane_of_a_call_has_a_name() -> None:
    for name in ("", "x" * 201, "a\x00", None):
        with pytest.raises(InvalidInput):
            Lane(name)  # type: ignore[arg-type]
