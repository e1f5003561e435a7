"""Short checks of the engine's statements: each refuses or counts one thing.

On the engine as it is all of them pass; on each mutant at least one must not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from regente import IllegalTransition, Task
from regente.engine.errors import Suspended
from regente.engine.outcome import Ended
from regente.engine.task_store import Claim
from tests.engine.model.engine import Engine
from tests.engine.model.model import LEASE_SECONDS
from tests.support.sinks import ARRIVE, create_sink, sink_arrivals

Probe = Callable[[Engine], None]
HANDED_BACK = Ended("queued", "task_handed_back")
CANCELED = Ended("canceled", "task_canceled")


def a_stale_attempt_of_the_same_runner_is_refused(engine: Engine) -> None:
    """I3."""
    runner, stale = held(engine)
    assert engine.settle(runner, stale, HANDED_BACK)
    (current,) = engine.claim(runner, 1)
    assert current.attempt == stale.attempt + 1
    refuse_everything(engine, runner, stale)
    assert not engine.run(engine.ledgers[runner].add_event(stale, "event:late", "late", "{}"))
    assert state(engine) == [("running", 2, 0, 0)]


def a_runner_that_does_not_hold_the_task_is_refused(engine: Engine) -> None:
    """I4."""
    _, claim = held(engine)
    refuse_everything(engine, engine.register(), claim)
    assert state(engine) == [("running", 1, 0, 0)]


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
    engine.advance(LEASE_SECONDS + 1)
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
        engine.advance(LEASE_SECONDS + 1)
        engine.reap()
        assert state(engine) == [("queued", crashes, 0, crashes)]
        runner = engine.register()
        if crashes == 1:
            assert len(engine.claim(runner, 1)) == 1
    assert engine.claim(runner, 1) == []
    assert len(engine.claim_suspect(runner)) == 1
    engine.advance(LEASE_SECONDS + 1)
    engine.reap()
    assert state(engine) == [("failed", 3, 0, 3)]


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


PROBES: tuple[Probe, ...] = (
    a_stale_attempt_of_the_same_runner_is_refused,
    a_runner_that_does_not_hold_the_task_is_refused,
    an_ended_task_does_not_end_again,
    a_running_task_is_not_claimed,
    operators_cannot_break_the_state_machine,
    a_batch_that_progresses_cannot_be_resumed,
    a_runner_without_a_lease_claims_nothing,
    a_living_runner_keeps_its_tasks,
    a_lost_runner_cannot_renew,
    a_finished_step_is_not_done_again,
    a_transaction_takes_effect_once,
    a_key_is_stored_once,
    a_sleep_is_slept_once,
    three_crashes_make_a_dead_letter,
    tries_are_bounded,
    a_batch_with_a_living_task_is_open,
)


def held(engine: Engine) -> tuple[int, Claim]:
    """A runner with one running task."""
    engine.run(engine.client.enqueue("alpha"))
    runner = engine.register()
    (claim,) = engine.claim(runner, 1)
    return runner, claim


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
    return Task(claim, pipeline, engine.ledgers[runner])


async def store(task: Task[Any]) -> None:
    async with task.transaction("STORE") as connection:
        await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))
