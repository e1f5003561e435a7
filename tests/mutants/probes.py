"""Short checks of the engine's statements: each refuses or counts one thing.

On the engine as it is all of them pass; on each mutant at least one must not.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from regente import IllegalTransition, Task
from regente.engine.database import number_array, text_array
from regente.engine.errors import (
    Held,
    LeaseLost,
    ReplayMismatch,
    Suspended,
    UnknownOutcome,
)
from regente.engine.lane_calls import Answer
from regente.engine.lanes import look_at_lanes
from regente.engine.outcome import Completed, Ended, Failure
from regente.engine.priority_levels import LevelRequest
from regente.engine.task_store import Claim, Completion
from regente.engine.watchdog.lanes import sweep_lanes
from regente.engine.watchdog.schedules import ScheduleSweep
from tests.engine.model.engine import Engine
from tests.engine.model.model import LEASE_SECONDS, STALL_SECONDS
from tests.support.sinks import ARRIVE, create_sink, sink_arrivals, store_arrival

Probe = Callable[[Engine], None]
HANDED_BACK = Ended("queued", "task_handed_back", delay_seconds=None)
HELD_BACK = Ended("queued", "task_held", delay_seconds=math.inf)
CANCELED = Ended("canceled", "task_canceled")
PATIENCE_SECONDS = 20.0  # for what must not wait


def a_stale_attempt_of_the_same_runner_is_refused(engine: Engine) -> None:
    """I3."""
    runner, stale = held(engine)
    assert engine.settle(runner, stale, HANDED_BACK)
    (current,) = engine.claim(runner, 1)
    assert current.attempt == stale.attempt + 1
    refuse_everything(engine, runner, stale)
    assert not engine.run(engine.stores[runner].add_event(stale, "event:late", "late", "{}"))
    assert state(engine) == [("running", 2, 0, 0)]


def a_runner_that_does_not_hold_the_task_is_refused(engine: Engine) -> None:
    """I4."""
    _, claim = held(engine)
    refuse_everything(engine, engine.register(), claim)
    assert state(engine) == [("running", 1, 0, 0)]


def a_runner_is_told_what_to_stop(engine: Engine) -> None:
    """I3, I4, O12: an attempt that lost its task, and one whose task was asked to be canceled."""
    runner, stale = held(engine)
    assert engine.settle(runner, stale, HANDED_BACK)
    (current,) = engine.claim(runner, 1)
    assert stops(engine, runner, stale, current) == [(stale.id, stale.attempt, True)]
    engine.run(engine.client.cancel(current.id))
    assert stops(engine, runner, current) == [(current.id, current.attempt, False)]
    assert engine.finish(runner, current)
    assert stops(engine, runner, current) == [(current.id, current.attempt, True)]


def an_ended_task_does_not_end_again(engine: Engine) -> None:
    """I5."""
    runner, claim = held(engine)
    assert engine.finish(runner, claim)
    refuse_everything(engine, runner, claim)
    assert state(engine) == [("completed", 1, 0, 0)]


def a_running_task_is_not_claimed(engine: Engine) -> None:
    """I4."""
    held(engine)
    assert engine.claim(engine.register(), 5) == []


def operators_cannot_break_the_state_machine(engine: Engine) -> None:
    """I5."""
    runner, claim = held(engine)
    with pytest.raises(IllegalTransition):
        engine.run(engine.client.retry(claim.id))
    assert engine.run(engine.client.cancel(claim.id)) == "canceling"
    assert state(engine) == [("running", 1, 0, 0)]
    assert engine.finish(runner, claim)
    for action in (engine.client.cancel, engine.client.retry):
        with pytest.raises(IllegalTransition):
            engine.run(action(claim.id))


def a_batch_that_progresses_cannot_be_resumed(engine: Engine) -> None:
    """I9."""
    batch = engine.run(engine.client.open_batch("b"))
    assert not engine.run(engine.client.resume_batch(batch)).resumed


def a_runner_without_a_lease_claims_nothing(engine: Engine) -> None:
    """I4."""
    engine.run(engine.client.enqueue("alpha"))
    expired = engine.register()
    engine.advance(LEASE_SECONDS)
    assert engine.claim(expired, 1) == []
    stopped = engine.register()
    engine.stop_runner(stopped)
    assert engine.claim(stopped, 1) == []


def a_living_runner_keeps_its_tasks(engine: Engine) -> None:
    """I4, I7."""
    runner, claim = held(engine)
    engine.reap()
    assert engine.renew(runner)
    assert engine.finish(runner, claim)
    assert state(engine) == [("completed", 1, 0, 0)]


def a_lost_runner_cannot_renew(engine: Engine) -> None:
    """I3."""
    runner, _ = held(engine)
    engine.outlive_lease()
    engine.reap()
    assert not engine.renew(runner)
    assert state(engine) == [("queued", 1, 0, 1)]


def a_finished_step_is_not_done_again(engine: Engine) -> None:
    """I2."""
    calls: list[int] = []
    runner, claim = held(engine)
    for _ in range(2):
        engine.run(task_of(engine, runner, claim).step("STEP", lambda: calls.append(1)))
        engine.settle(runner, claim, HANDED_BACK)
        (claim,) = engine.claim(runner, 1)
    assert calls == [1]


def a_result_is_recalled_as_it_was(engine: Engine) -> None:
    """I2: the keys of a dict keep their order."""
    runner, claim = held(engine)
    found = lambda: {"z": 1e22, "a": 1}  # noqa: E731 - the same function at both attempts
    for _ in range(2):
        result = engine.run(task_of(engine, runner, claim).step("STEP", found))
        assert str(result) == "{'z': 1e+22, 'a': 1}"
        engine.settle(runner, claim, HANDED_BACK)
        (claim,) = engine.claim(runner, 1)


def a_result_is_recalled_for_its_own_call(engine: Engine) -> None:
    """I2: another call does not get it."""
    runner, claim = held(engine)
    engine.run(task_of(engine, runner, claim).step("STEP", abs, -1))
    engine.settle(runner, claim, HANDED_BACK)
    (claim,) = engine.claim(runner, 1)
    with pytest.raises(ReplayMismatch):
        engine.run(task_of(engine, runner, claim).step("STEP", abs, -2))


def a_call_of_unknown_outcome_is_not_repeated(engine: Engine) -> None:
    """I2: a person decides, and what was decided is done."""
    runner, first = held(engine)
    calls: list[int] = []

    def lost() -> None:
        calls.append(1)
        raise UnknownOutcome("no answer")

    def paying(claim: Claim) -> Any:
        return task_of(engine, runner, claim).step("PAY", lost, on_unknown="hold")

    with pytest.raises(Held):
        engine.run(paying(first))
    engine.settle(runner, first, HELD_BACK)
    assert undecided(engine) == ["PAY"]
    engine.run(engine.client.release([first.id]))
    (second,) = engine.claim(runner, 1)
    with pytest.raises(IllegalTransition):
        engine.run(engine.client.resolve(first.id, "PAY", retry=True))
    with pytest.raises(Held):
        engine.run(paying(second))
    engine.settle(runner, second, HELD_BACK)
    engine.run(engine.client.resolve(first.id, "PAY", result=None))
    (third,) = engine.claim(runner, 1)
    engine.run(paying(third))
    assert calls == [1]


def an_intent_is_written_under_the_fence(engine: Engine) -> None:
    """I3, I4: not by another runner, an earlier attempt, or for a task that has ended."""
    runner, first = held(engine)
    store, other = engine.stores[runner], engine.stores[engine.register()]
    assert engine.run(store.record_intent(first, "PAY", -1, "pay()"))
    engine.settle(runner, first, HANDED_BACK)
    (second,) = engine.claim(runner, 1)
    for stale, claim in ((store, first), (other, second)):
        assert not engine.run(stale.record_intent(claim, "LATE", -1, "late()"))
        assert not engine.run(stale.ask_about_intents(claim, "PAY", -1))
        engine.run(stale.forget_intent(claim, "PAY", -1))
    engine.settle(runner, second, HELD_BACK)
    assert not engine.run(store.record_intent(second, "LATE", -1, "late()"))
    assert not engine.run(store.ask_about_intents(second, "PAY", -1))
    engine.run(store.forget_intent(second, "PAY", -1))
    assert engine.query("SELECT name, asked_at IS NULL FROM regente.intents") == [("PAY", True)]


def a_key_for_providers_belongs_to_one_task(engine: Engine) -> None:
    """I2: not to another one that gets the same id after a restore."""
    runner, first = held(engine)
    engine.advance(1)
    engine.query(
        f"WITH gone AS (DELETE FROM regente.tasks RETURNING id) "
        f"INSERT INTO regente.tasks (id, pipeline) OVERRIDING SYSTEM VALUE "
        f"SELECT id + {2**40}, 'alpha' FROM gone RETURNING id"
    )
    engine.query(f"UPDATE regente.tasks SET id = {first.id} RETURNING id")
    (second,) = engine.claim(runner, 1)
    assert second.id == first.id
    keys = {task_of(engine, runner, claim).idempotency_key("PAY") for claim in (first, second)}
    assert len(keys) == 2


def a_locked_task_holds_up_no_other(engine: Engine) -> None:
    """F14: another session holds the row of the first."""
    engine.run(engine.client.enqueue_many("alpha", [{}] * 2))
    runner = engine.register()
    claims = engine.claim(runner, 2)
    finish = engine.stores[runner].finished.write
    with engine.locked(claims[:1]) as release:

        async def finish_both() -> list[bool]:
            writes = [asyncio.ensure_future(finish(completion(claim))) for claim in claims]
            await asyncio.wait(writes[1:], timeout=PATIENCE_SECONDS)
            finished = [write.done() for write in writes]
            release()
            assert await asyncio.gather(*writes) == [True, True]
            return finished

        assert engine.run(finish_both()) == [False, True]


def intents_for_locked_tasks_hold_no_connection(engine: Engine) -> None:
    """F14: more of them than there are connections."""
    engine.run(engine.client.enqueue_many("alpha", [{}] * 8))
    runner = engine.register()
    claims = engine.claim(runner, 8)
    record_intent = engine.stores[runner].record_intent
    with engine.locked(claims) as release:

        async def count_beside() -> None:
            intents = [
                asyncio.ensure_future(record_intent(claim, "PAY", -1, "pay()")) for claim in claims
            ]
            await asyncio.sleep(0)
            counting = asyncio.ensure_future(engine.client.counts())
            await asyncio.wait([counting], timeout=PATIENCE_SECONDS)
            was_counted = counting.done()
            release()
            assert None not in await asyncio.gather(*intents)
            await counting
            assert was_counted

        engine.run(count_beside())


def completion(claim: Claim) -> Completion:
    return Completion(claim, Completed(None), None)


def a_signal_is_received_once_and_under_the_fence(engine: Engine) -> None:
    """I2, I3, I4."""
    runner, first = held(engine)
    store, other = engine.stores[runner], engine.stores[engine.register()]
    sent = engine.run(engine.client.signal(first.id, "go", 1))
    what = {"signal": "go", "signal_id": sent, "output": "1", "call": None}
    engine.settle(runner, first, HANDED_BACK)
    (second,) = engine.claim(runner, 1)
    for stale, claim in ((store, first), (other, second)):
        assert not engine.run(stale.receive_signal(claim, step="LATE", **what))
    assert engine.run(store.receive_signal(second, step="A", **what)) == [(True,)]
    assert engine.run(store.receive_signal(second, step="B", **what)) == [(False,)]
    engine.settle(runner, second, HELD_BACK)
    assert not engine.run(store.receive_signal(second, step="LATE", **what))
    assert engine.query("SELECT name FROM regente.steps") == [("A",)]


def children_belong_to_the_attempt_that_holds_the_parent(engine: Engine) -> None:
    """I3, I4: waited for and recorded under the fence; canceled with their parent."""
    runner, first = held(engine)
    store, other = engine.stores[runner], engine.stores[engine.register()]
    (batch,) = engine.query(
        "INSERT INTO regente.batches (name, parent_id, parent_step, total, status)"
        f" VALUES ('children', {first.id}, 'A', 1, 'running') RETURNING id"
    )[0]
    engine.run(engine.client.enqueue("alpha", batch=batch))
    engine.settle(runner, first, HANDED_BACK)
    (second,) = [one for one in engine.claim(runner, 1) if one.id == first.id]
    for stale, claim in ((store, first), (other, second)):
        assert engine.run(stale.await_children(claim, "A", batch)) is None
        assert not engine.run(stale.record_children(claim, "A", "[]", "spawn()"))
    assert engine.run(store.await_children(second, "A", batch)) is False
    engine.settle(runner, second, HELD_BACK)
    assert engine.run(store.await_children(second, "A", batch)) is None
    assert not engine.run(store.record_children(second, "A", "[]", "spawn()"))
    assert engine.run(engine.client.cancel(first.id)) == "canceled"
    assert [row[0] for row in state(engine)] == ["canceled", "canceled"]


def a_decision_is_made_once_and_about_what_waits(engine: Engine) -> None:
    """I2, I5."""
    runner, first = held(engine)
    store = engine.stores[runner]
    for step in ("PAY", "SHIP"):
        engine.run(store.record_intent(first, step, -1, f"{step}()"))
        engine.run(store.ask_about_intents(first, step, -1))
    engine.settle(runner, first, HELD_BACK)
    assert undecided(engine) == ["PAY", "SHIP"]
    engine.run(engine.client.resolve(first.id, "PAY", result=1))
    with pytest.raises(IllegalTransition):
        engine.run(engine.client.resolve(first.id, "PAY", retry=True))
    assert undecided(engine) == ["SHIP"]
    assert engine.run(engine.client.cancel(first.id)) == "canceled"
    with pytest.raises(IllegalTransition):
        engine.run(engine.client.resolve(first.id, "SHIP", retry=True))


def undecided(engine: Engine) -> list[str]:
    return sorted(one.step for one in engine.run(engine.client.decisions()))


def a_transaction_takes_effect_once(engine: Engine) -> None:
    """I2."""
    create_sink(engine.connection)
    engine.connection.execute("TRUNCATE public.sink")
    runner, claim = held(engine)
    for _ in range(2):
        engine.run(store(task_of(engine, runner, claim)))
        engine.settle(runner, claim, HANDED_BACK)
        (claim,) = engine.claim(runner, 1)
    assert sink_arrivals(engine.connection) == {(claim.id, "STORE"): 1}


def the_result_of_a_transaction_is_what_was_committed(engine: Engine) -> None:
    """I2."""
    create_sink(engine.connection)
    engine.connection.execute("TRUNCATE public.sink RESTART IDENTITY")
    runner, claim = held(engine)
    for _ in range(2):
        assert engine.run(store_arrival(task_of(engine, runner, claim), "STORE")) == 1
        engine.settle(runner, claim, HANDED_BACK)
        (claim,) = engine.claim(runner, 1)
    assert sink_arrivals(engine.connection) == {(claim.id, "STORE"): 1}


def endless_throttling_is_bounded(engine: Engine) -> None:
    """I10."""
    runner, claim = held(engine)
    slow = Ended("queued", "task_throttled", failure=Failure("throttled", "SLOW", "wait"))
    for _ in range(4):
        assert engine.settle(runner, claim, slow)
        (claim,) = engine.claim(runner, 1)
    assert engine.query("SELECT attempt FROM regente.failures ORDER BY id") == [(1,), (4,)]


def a_task_keeps_its_place(engine: Engine) -> None:
    """I8: handed back or reaped, it is as old as before."""
    runner, claim = held(engine)
    (place,) = engine.query("SELECT run_at FROM regente.tasks")
    engine.advance(1)
    assert engine.settle(runner, claim, HANDED_BACK)
    assert engine.query("SELECT run_at FROM regente.tasks") == [place]
    engine.claim(runner, 1)
    engine.outlive_lease()
    engine.reap()
    assert engine.query("SELECT status::text, run_at FROM regente.tasks") == [("queued", *place)]


def a_batch_without_a_runner_does_not_fail(engine: Engine) -> None:
    """I1."""
    batch = engine.run(engine.client.open_batch("b", stall_after=10, max_resumes=0))
    engine.run(engine.client.enqueue("alpha", batch=batch))
    engine.advance(11)
    engine.register()  # this moment
    engine.review()
    assert engine.run(engine.client.batch(batch)).status == "stalled"


def a_batch_with_a_healthy_task_does_not_stall(engine: Engine) -> None:
    """W1: the pipeline allows it STALL_SECONDS."""
    batch = engine.run(engine.client.open_batch("b", stall_after=10))
    engine.run(engine.client.enqueue("alpha", batch=batch))
    engine.claim(engine.register(), 1)
    engine.review()
    engine.advance(STALL_SECONDS - 10)
    engine.review()
    assert engine.run(engine.client.batch(batch)).status == "running"


def a_sweep_is_done_once_per_interval(engine: Engine) -> None:
    """S5."""
    assert [takes_turn(engine), takes_turn(engine)] == [True, False]
    engine.advance(61)
    assert takes_turn(engine)


def takes_turn(engine: Engine) -> bool:
    turn = {"name": "reaper", "every_seconds": 60.0}
    return bool(engine.run(engine.database.fetch("take_turn", turn))[0][0])


def a_key_is_stored_once(engine: Engine) -> None:
    """I2, F12."""
    first = engine.run(engine.client.enqueue("alpha", key="k"))
    assert engine.run(engine.client.enqueue("alpha", key="k")) == first
    assert len(state(engine)) == 1


def a_sleep_is_slept_once(engine: Engine) -> None:
    """I8."""
    runner, claim = held(engine)
    with pytest.raises(Suspended):
        engine.run(task_of(engine, runner, claim).sleep(10))
    engine.settle(
        runner, claim, Ended("queued", "task_sleeping", delay_seconds=10, sleep_step="sleep")
    )
    engine.advance(11)
    (claim,) = engine.claim(runner, 1)
    engine.run(task_of(engine, runner, claim).sleep(10))


def three_crashes_make_a_dead_letter(engine: Engine) -> None:
    """I7: from the second crash on the task runs alone."""
    held(engine)
    for crashes in (1, 2):
        engine.outlive_lease()
        engine.reap()
        assert state(engine) == [("queued", crashes, 0, crashes)]
        runner = engine.register()
        if crashes == 1:
            assert len(engine.claim(runner, 1)) == 1
    assert engine.claim(runner, 1) == []
    assert len(engine.claim_suspect(runner)) == 1
    engine.outlive_lease()
    engine.reap()
    assert state(engine) == [("failed", 3, 0, 3)]


def a_runner_that_stops_charges_no_crash(engine: Engine) -> None:
    """I7: also for a task that it could not hand back."""
    runner, _ = held(engine)
    engine.stop_runner(runner)
    engine.reap()
    assert state(engine) == [("queued", 1, 0, 0)]


def an_outage_charges_no_crash(engine: Engine) -> None:
    """F4, I7: no runner could renew for longer than the lease."""
    for first_back in (engine.reap, engine.register, None):
        engine.empty()
        held(engine)
        other = engine.register()
        engine.advance(LEASE_SECONDS + 1)
        if first_back is None:
            assert engine.renew(other)
        else:
            first_back()
        engine.reap()
        assert state(engine) == [("running", 1, 0, 0)]


def a_lost_runners_transaction_ends(engine: Engine) -> None:
    """F5, I7: and no other runner's."""
    held(engine)
    engine.query(
        "UPDATE regente.runners SET connections = 'regente runner of the lost' RETURNING 1"
    )
    with (
        engine.session("regente runner of the lost") as lost,
        engine.session("regente runner of the others") as other,
    ):
        engine.outlive_lease()
        engine.reap()
        assert (lost.closed, other.closed) == (True, False)


def silence_is_forgiven_twice(engine: Engine) -> None:
    """I8: also when the one that speaks for all comes back again and again."""
    for comes_back in (engine.reap, engine.register):
        engine.empty()
        held(engine)
        for _ in range(3):
            engine.advance(LEASE_SECONDS + 1)
            comes_back()
        engine.reap()
        assert state(engine) == [("queued", 1, 0, 1)]


def a_forgiven_runners_tasks_do_not_stall(engine: Engine) -> None:
    """F4, I7."""
    runner, claim = held(engine)
    engine.advance(2 * LEASE_SECONDS)
    engine.reap()
    engine.release_stalled()
    assert state(engine) == [("running", 1, 0, 0)]
    assert engine.finish(runner, claim)


def tries_are_bounded(engine: Engine) -> None:
    """I7."""
    runner, claim = held(engine)
    engine.settle(runner, claim, engine.failed_attempt(runner, claim))
    engine.advance(30)
    (claim,) = engine.claim(runner, 1)
    engine.settle(runner, claim, engine.failed_attempt(runner, claim))
    assert state(engine) == [("failed", 2, 2, 0)]


def a_batch_with_a_living_task_is_open(engine: Engine) -> None:
    """I9."""
    batch = engine.run(engine.client.open_batch("b"))
    engine.run(engine.client.enqueue("alpha", batch=batch))
    engine.review()
    assert engine.run(engine.client.batch(batch)).status == "pending"


def a_paused_pipeline_is_not_claimed_from(engine: Engine) -> None:
    """W1."""
    engine.run(engine.client.enqueue("alpha"))
    engine.run(engine.client.pause("alpha"))
    assert engine.claim(engine.register(), 5) == []


def a_claim_goes_on_after_its_floor(engine: Engine) -> None:
    """S3: a bulk enqueue gives all its tasks one `run_at`, so the floor has an id."""
    first, *others = engine.run(engine.client.enqueue_many("alpha", [{}] * 3))
    runner = engine.register()
    floor = (engine.run(engine.stores[runner].survey(["alpha"]))[0][0].first or 0.0, first + 1)
    claims = engine.run(engine.stores[runner].claim([LevelRequest("alpha", 0, floor, 5)], 5))
    assert sorted(claim.id for claim in claims) == others


def a_hint_waits_for_the_commit(engine: Engine) -> None:
    """I8: the task would not be visible yet; what is heard next is not the hint."""
    engine.connection.execute("LISTEN regente_queued")
    with psycopg.connect(engine.database.url) as open_one:
        row = open_one.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert row is not None
        hint = {"xids": f"{{{row[0]}}}", "pipelines": "{alpha}", "priorities": "{0}"}
        sent = engine.run(engine.database.fetch("send_hints", {**hint, "firsts": "{0}"}))
    assert sent == []
    engine.connection.execute("NOTIFY regente_queued, 'end'")
    heard = next(engine.connection.notifies(timeout=10.0, stop_after=1))
    engine.connection.execute("UNLISTEN *")
    assert heard.payload == "end"


def a_lane_runs_no_more_than_its_limit(engine: Engine) -> None:
    """Q2."""
    runner = laned(engine, 9, concurrency=2)
    first, second = claim_lanes(engine, runner)
    engine.query("UPDATE regente.lane_queues SET ready_at = regente.clock() RETURNING lane")
    assert claim_lanes(engine, runner) == []
    assert engine.finish(runner, first)
    look(engine)
    assert len(claim_lanes(engine, runner)) == 1
    assert engine.finish(runner, second)


def a_lane_starts_no_more_than_its_rate(engine: Engine) -> None:
    """Q2."""
    runner = laned(engine, 9, rate=0.5, burst=2)
    assert len(claim_lanes(engine, runner)) == 2
    engine.query("UPDATE regente.lane_queues SET ready_at = regente.clock() RETURNING lane")
    assert claim_lanes(engine, runner) == []
    engine.advance(2)
    assert len(claim_lanes(engine, runner)) == 1


def a_call_gets_a_place_as_a_task_does(engine: Engine) -> None:
    """Q2, Q9: within the limits of the lane."""
    runner, first = held(engine)
    engine.run(engine.client.enqueue("alpha"))
    (second,) = engine.claim(runner, 1)
    engine.run(engine.client.lanes.set("a", pipeline="alpha", concurrency=1))
    assert enters(engine, runner, first, 1)
    assert enters(engine, runner, first, 1)  # the answer of the first got lost
    assert not enters(engine, runner, second, 2)
    engine.run(engine.client.lanes.set("a", concurrency=9, rate=0.5, burst=2))
    assert [enters(engine, runner, second, number) for number in (3, 4, 5)] == [True, True, False]
    engine.advance(2)
    assert enters(engine, runner, second, 6)
    assert not enters(engine, runner, second, 7)
    engine.run(engine.client.lanes.set("a", rate=None, burst=None))
    engine.run(engine.client.lanes.park("a", seconds=60))
    assert not enters(engine, runner, second, 8)
    engine.query(
        "UPDATE regente.lanes SET parked_until = NULL, breaker_state = 'open' RETURNING name"
    )
    assert enters(engine, runner, second, 9)
    assert engine.query("SELECT probe_id FROM regente.lanes") == [(second.id,)]
    assert not enters(engine, runner, first, 10)


def a_call_is_one_of_a_running_attempt(engine: Engine) -> None:
    """I3, I4: and its place is free after that."""
    runner, claim = held(engine)
    engine.run(engine.client.lanes.set("a", pipeline="alpha", concurrency=1))
    assert enters(engine, runner, claim, 1)
    assert engine.settle(runner, claim, HANDED_BACK)
    with pytest.raises(LeaseLost):
        enters(engine, runner, claim, 2)
    (again,) = engine.claim(runner, 1)
    with pytest.raises(LeaseLost):
        enters(engine, runner, claim, 3)
    engine.run(sweep_lanes(engine.database))
    assert engine.query("SELECT count(*) FROM regente.lane_calls") == [(0,)]
    assert enters(engine, runner, again, 4)
    assert engine.finish(runner, again)
    with pytest.raises(LeaseLost):
        enters(engine, runner, again, 5)


def lanes_take_turns(engine: Engine) -> None:
    """Q2: after a whole turn the other lane is first."""
    laned(engine, 40, "a")
    engine.advance(1)
    runner = laned(engine, 40, "b")
    seen = []
    for _ in range(4):
        seen += [claim.lane for claim in claim_lanes(engine, runner, 16)]
        engine.advance(1)
    assert seen.count("a") == seen.count("b") == 32


def a_claim_from_a_lane_is_a_claim(engine: Engine) -> None:
    """I3, I4, O16."""
    runner = laned(engine, 3)
    engine.run(engine.client.pause("alpha"))
    assert claim_lanes(engine, runner) == []
    engine.run(engine.client.resume("alpha"))
    (claim,) = claim_lanes(engine, runner, 1)
    assert claim.attempt == 1
    assert engine.settle(runner, claim, HANDED_BACK)
    look(engine)
    assert {found.attempt for found in claim_lanes(engine, runner, 3)} == {1, 2}
    assert not engine.finish(runner, claim)
    engine.run(engine.client.enqueue_many("alpha", [{}], lane="a"))
    look(engine)
    stopped = engine.register()
    engine.stop_runner(stopped)
    assert claim_lanes(engine, stopped) == []
    engine.advance(LEASE_SECONDS)
    assert claim_lanes(engine, runner) == []


def a_throttled_lane_is_parked_and_slowed(engine: Engine) -> None:
    """Q9."""
    runner = laned(engine, 9, rate=10.0, min_rate=1.0)
    first, second = claim_lanes(engine, runner, 2)
    report(engine, first, "throttled", 30.0)
    assert engine.run(engine.client.lanes.show("a")).rate_now == 5.0
    engine.query("UPDATE regente.lane_queues SET ready_at = regente.clock() RETURNING lane")
    assert claim_lanes(engine, runner) == []
    engine.advance(30)
    report(engine, second, "passed")
    assert engine.run(engine.client.lanes.show("a")).rate_now == 5.5
    assert len(claim_lanes(engine, runner)) == 7


def a_breaker_probes_with_one_task(engine: Engine) -> None:
    """Q9."""
    runner = laned(engine, 9, breaker=2)
    first, second = claim_lanes(engine, runner, 2)
    report(engine, first, "failed")
    report(engine, second, "failed")
    assert claim_lanes(engine, runner) == []
    engine.advance(30)
    (probe,) = claim_lanes(engine, runner)
    engine.query("UPDATE regente.lane_queues SET ready_at = regente.clock() RETURNING lane")
    assert claim_lanes(engine, runner) == []
    engine.run(sweep_lanes(engine.database))
    assert engine.run(engine.client.lanes.show("a")).breaker_state == "probing"
    report(engine, probe, "passed")
    assert len(claim_lanes(engine, runner, 5)) == 5


def a_lane_that_was_not_announced_is_found(engine: Engine) -> None:
    """I8: also one whose probe was lost."""
    runner = laned(engine, 0, breaker=1)
    engine.query(
        "INSERT INTO regente.tasks (pipeline, lane, run_at, lane_run_at) SELECT 'alpha', 'a', "
        "regente.in_lane(), regente.clock() FROM generate_series(1, 3) RETURNING id"
    )
    engine.run(sweep_lanes(engine.database))
    (first,) = claim_lanes(engine, runner, 1)
    report(engine, first, "failed")
    engine.advance(30)
    (probe,) = claim_lanes(engine, runner)
    assert engine.settle(runner, probe, HANDED_BACK)
    engine.run(sweep_lanes(engine.database))
    assert len(claim_lanes(engine, runner)) == 1


def suspects_of_lanes_keep_the_limits(engine: Engine) -> None:
    """F7."""
    runner = laned(engine, 3, concurrency=1)
    engine.query(
        "UPDATE regente.tasks SET crashes = 2 "
        "WHERE id IN (SELECT id FROM regente.tasks ORDER BY id LIMIT 2) RETURNING id"
    )
    (healthy,) = claim_lanes(engine, runner)
    store = engine.stores[runner]
    assert engine.run(store.claim_lane_suspect(["alpha"])) == []
    assert engine.finish(runner, healthy)
    look(engine)
    assert claim_lanes(engine, runner) == []
    assert len(engine.run(store.claim_lane_suspect(["alpha"]))) == 1
    assert engine.run(store.claim_lane_suspect(["alpha"])) == []


def a_task_that_comes_back_stays_in_its_lane(engine: Engine) -> None:
    """O12: a retry, a sleep, a handed back one, an operator's retry."""
    runner = laned(engine, 1)
    (claim,) = claim_lanes(engine, runner)
    waits = Ended("queued", "task_retried", delay_seconds=20.0)
    assert engine.settle(runner, claim, waits)
    look(engine)
    assert engine.claim(runner, 5) == claim_lanes(engine, runner) == []
    engine.advance(20)
    (claim,) = claim_lanes(engine, runner)
    assert engine.settle(runner, claim, CANCELED)
    engine.run(engine.client.retry(claim.id))
    look(engine)
    assert engine.claim(runner, 5) == []
    assert len(claim_lanes(engine, runner)) == 1


def a_time_of_a_schedule_is_run_once(engine: Engine) -> None:
    """I5, Q4: also when its task is gone and the clock was set back."""
    schedule(engine, catch_up="all")
    assert fired_after(engine, 120) == 2
    engine.connection.execute("DELETE FROM regente.tasks")
    engine.connection.execute(
        "UPDATE regente.schedules SET next_at = next_at - interval '2 minutes'"
    )
    assert fired_after(engine, 0) == 0


def a_run_of_a_schedule_waits_for_the_one_before(engine: Engine) -> None:
    """Q4."""
    schedule(engine, catch_up="all", overlap="queue")
    assert [fired_after(engine, 120), fired_after(engine, 0), fired_after(engine, 60)] == [1, 0, 0]
    runner = engine.register()
    for _ in range(2):
        (claim,) = engine.claim(runner, 5)
        start = engine.database.fetch("start_waiting_run", {"name": "s"})
        assert engine.run(start) == []
        assert engine.finish(runner, claim)
        assert fired_after(engine, 0) == 1


def a_run_of_a_schedule_is_skipped_beside_an_unfinished_one(engine: Engine) -> None:
    """Q4."""
    schedule(engine, overlap="skip")
    assert [fired_after(engine, 60), fired_after(engine, 60)] == [1, 0]


def a_paused_schedule_does_not_fire(engine: Engine) -> None:
    """Q4: also after a deploy."""
    schedule(engine)
    engine.run(engine.client.pause_schedule("s"))
    engine.run(engine.client.schedule("s", "alpha", "*/2 * * * *"))
    assert fired_after(engine, 600) == 0
    engine.run(engine.client.resume_schedule("s"))
    assert fired_after(engine, 0) == 1


def a_run_that_waits_is_kept_and_waits_for_the_pause(engine: Engine) -> None:
    """Q4."""
    schedule(engine, overlap="queue")
    assert [fired_after(engine, 60), fired_after(engine, 60)] == [1, 0]
    engine.run(engine.client.pause_schedule("s"))
    runner = engine.register()
    (claim,) = engine.claim(runner, 5)
    assert engine.finish(runner, claim)
    assert fired_after(engine, 600) == 0
    engine.run(engine.database.fetch("forget_schedule_runs", {"keep_seconds": 0.0}))
    engine.run(engine.client.resume_schedule("s", skip_missed=True))
    assert fired_after(engine, 0) == 1


def schedule(engine: Engine, **rules: Any) -> None:
    engine.run(engine.client.schedule("s", "alpha", "* * * * *", **rules))


def fired_after(engine: Engine, seconds: int) -> int:
    """How many tasks the schedules queue at once after this time."""
    before = len(state(engine))
    engine.advance(seconds)
    engine.run(ScheduleSweep(engine.database, 1).run_once())
    return len(state(engine)) - before


PROBES: tuple[Probe, ...] = (
    a_time_of_a_schedule_is_run_once,
    a_run_of_a_schedule_waits_for_the_one_before,
    a_run_of_a_schedule_is_skipped_beside_an_unfinished_one,
    a_paused_schedule_does_not_fire,
    a_run_that_waits_is_kept_and_waits_for_the_pause,
    a_paused_pipeline_is_not_claimed_from,
    a_claim_goes_on_after_its_floor,
    a_hint_waits_for_the_commit,
    a_stale_attempt_of_the_same_runner_is_refused,
    a_runner_that_does_not_hold_the_task_is_refused,
    a_runner_is_told_what_to_stop,
    an_ended_task_does_not_end_again,
    a_running_task_is_not_claimed,
    operators_cannot_break_the_state_machine,
    a_batch_that_progresses_cannot_be_resumed,
    a_runner_without_a_lease_claims_nothing,
    a_living_runner_keeps_its_tasks,
    a_lost_runner_cannot_renew,
    a_finished_step_is_not_done_again,
    a_result_is_recalled_as_it_was,
    a_result_is_recalled_for_its_own_call,
    a_call_of_unknown_outcome_is_not_repeated,
    an_intent_is_written_under_the_fence,
    a_key_for_providers_belongs_to_one_task,
    a_locked_task_holds_up_no_other,
    intents_for_locked_tasks_hold_no_connection,
    a_signal_is_received_once_and_under_the_fence,
    children_belong_to_the_attempt_that_holds_the_parent,
    a_decision_is_made_once_and_about_what_waits,
    a_transaction_takes_effect_once,
    the_result_of_a_transaction_is_what_was_committed,
    endless_throttling_is_bounded,
    a_task_keeps_its_place,
    a_batch_without_a_runner_does_not_fail,
    a_batch_with_a_healthy_task_does_not_stall,
    a_sweep_is_done_once_per_interval,
    a_lane_runs_no_more_than_its_limit,
    a_lane_starts_no_more_than_its_rate,
    a_call_gets_a_place_as_a_task_does,
    a_call_is_one_of_a_running_attempt,
    lanes_take_turns,
    a_claim_from_a_lane_is_a_claim,
    a_throttled_lane_is_parked_and_slowed,
    a_breaker_probes_with_one_task,
    a_lane_that_was_not_announced_is_found,
    suspects_of_lanes_keep_the_limits,
    a_task_that_comes_back_stays_in_its_lane,
    a_key_is_stored_once,
    a_sleep_is_slept_once,
    three_crashes_make_a_dead_letter,
    a_runner_that_stops_charges_no_crash,
    an_outage_charges_no_crash,
    a_lost_runners_transaction_ends,
    silence_is_forgiven_twice,
    a_forgiven_runners_tasks_do_not_stall,
    tries_are_bounded,
    a_batch_with_a_living_task_is_open,
)


def laned(engine: Engine, count: int, lane: str = "a", **limits: Any) -> int:
    """A runner, and so many tasks in a lane with these limits."""
    limits = {"weight": 1, **limits}
    engine.run(engine.client.lanes.set(lane, pipeline="alpha", **limits))
    engine.run(engine.client.enqueue_many("alpha", [{}] * count, lane=lane))
    look(engine, lane)
    return engine.register()


def look(engine: Engine, lane: str = "a") -> None:
    engine.run(look_at_lanes(engine.database.fetch, [(lane, "alpha")]))


def claim_lanes(engine: Engine, runner: int, free: int = 100) -> list[Claim]:
    found = engine.run(engine.stores[runner].claim_lanes({"alpha": free}, free, 10))
    engine.run(look_at_lanes(engine.database.fetch, found.to_look_at))
    return found.claims


def enters(engine: Engine, runner: int, claim: Claim, number: int) -> bool:
    """Whether a call of the attempt gets a place in lane `a`."""
    params = {
        "lane": "a",
        "task_id": claim.id,
        "attempt": claim.attempt,
        "runner_id": runner,
        "number": number,
        "is_noted": True,
    }
    [answer] = engine.run(engine.database.fetch("enter_lane", params))
    if not Answer(*answer).is_held:
        raise LeaseLost
    return Answer(*answer).has_entered


def report(engine: Engine, claim: Claim, verdict: str, seconds: float = 0.0) -> None:
    params = {
        "lanes": text_array([claim.lane]),
        "ids": number_array([claim.id]),
        "verdicts": text_array([verdict]),
        "seconds": number_array([seconds]),
    }
    engine.run(engine.database.fetch("report_lanes", params))
    look(engine, claim.lane or "")


def held(engine: Engine) -> tuple[int, Claim]:
    """A runner with one running task."""
    engine.run(engine.client.enqueue("alpha"))
    runner = engine.register()
    (claim,) = engine.claim(runner, 1)
    return runner, claim


def stops(engine: Engine, runner: int, *claims: Claim) -> list[tuple[int, int, bool]]:
    return engine.run(engine.stores[runner].to_be_stopped(claims))


def refuse_everything(engine: Engine, runner: int, claim: Claim) -> None:
    assert not engine.record(runner, claim, "LATE")
    assert not engine.finish(runner, claim)
    assert not engine.settle(runner, claim, CANCELED)


def state(engine: Engine) -> list[tuple[Any, ...]]:
    return engine.query(
        "SELECT status::text, attempt, tries, crashes FROM regente.tasks ORDER BY id"
    )


def task_of(engine: Engine, runner: int, claim: Claim) -> Task[Any]:
    pipeline = engine.registry.get(claim.pipeline)
    assert pipeline is not None
    return Task(claim, pipeline, engine.stores[runner])


async def store(task: Task[Any]) -> None:
    async with task.transaction("STORE") as connection:
        await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))
