"""Lanes against a model: any order of clients, claims, calls, ends, sweeps, operators and time.

The model says what a claim of everything must take from each lane: as many tasks as its limit, its
tokens, its parking and its breaker allow, the highest priority first, then the oldest (I1, I5, Q2).
So a limit that is exceeded fails, and a lane that is forgotten, too.
"""

from __future__ import annotations

import asyncio
import math
import os
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from regente import Lane, LaneBusy, Throttled, Transient
from regente.engine.lane_calls import LaneCall, LaneCalls
from regente.engine.lane_watch import LaneWatch
from regente.engine.lanes import look_at_lanes, verdict_of_call
from regente.engine.outcome import Completed, Ended, Failure
from regente.engine.priority_levels import rank_of
from regente.engine.task_store import Claim, Completion
from regente.engine.watchdog.lanes import sweep_lanes
from tests.engine.model.engine import Engine, at, engine_on
from tests.support.audit import audit

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
PROFILE = settings(
    max_examples=1000 if LONG else 25,
    stateful_step_count=60 if LONG else 30,
    derandomize=not LONG,
    deadline=None,
    database=None,
    print_blob=True,
    phases=(Phase.generate,)
    if "REGENTE_TEST_MUTANT" in os.environ
    else (Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
LANES = ("a", "b")
BREAKER, PAUSE_SECONDS = 3, 30
picks = st.integers(0, 10**6)


@dataclass
class ModelLane:
    concurrency: int | None = None
    rate: float | None = None
    burst: int = 1
    parked_until: float = -math.inf
    used_until: float = -math.inf
    failures: int = 0
    breaker: bool = False
    opened: int = 0
    state: str = "closed"
    probe: int | None = None
    queued: dict[int, tuple[int, float]] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    calls: int = 0

    def room(self, now: float) -> int:
        if self.parked_until > now or self.state == "probing":
            return 0
        limits = [10_000]
        if self.concurrency is not None:
            limits.append(self.concurrency - len(self.running) - self.calls)
        if self.rate is not None:
            used = max(0.0, self.used_until - now)
            limits.append(math.floor(self.burst - used * self.rate + 1e-6))
        if self.state == "open":
            limits.append(1)
        return max(0, min(limits))

    def take(self, now: float) -> list[int]:
        """What a claim of everything starts."""
        due = [task_id for task_id, (_, run_at) in self.queued.items() if run_at <= now]
        due.sort(key=lambda task: (-self.queued[task][0], self.queued[task][1], task))
        taken = due[: self.room(now)]
        for task_id in taken:
            del self.queued[task_id]
            self.running.add(task_id)
        self.started(taken, now)
        return taken

    def started(self, ids: list[int], now: float) -> None:
        if ids and self.rate is not None:
            self.used_until = max(self.used_until, now) + len(ids) / self.rate
        if ids and self.state == "open":
            self.state, self.probe = "probing", ids[0]

    def end(self, task_id: int, verdict: str, now: float, seconds: float = 0.0) -> None:
        self.running.discard(task_id)
        if not self.breaker and verdict != "throttled":
            return
        self.failures = 0 if verdict == "passed" else self.failures + (verdict == "failed")
        probes = self.state == "probing" and task_id == self.probe
        opens = probes and verdict in ("failed", "throttled")
        opens |= self.state == "closed" and self.breaker and self.failures >= BREAKER
        if verdict == "throttled":
            self.parked_until = max(self.parked_until, now + seconds)
        if opens:
            pause = min(900, PAUSE_SECONDS * 2 ** min(self.opened, 5))
            self.parked_until = max(self.parked_until, now + pause)
            self.opened += 1
            self.state, self.probe = "open", None
        elif probes:
            self.state, self.probe = ("closed" if verdict == "passed" else "open"), None
            if verdict == "passed":
                self.opened = self.failures = 0

    def open(self) -> None:
        self.parked_until, self.state, self.probe = -math.inf, "closed", None
        self.failures = self.opened = 0


class LanesFollowModel(RuleBasedStateMachine):
    engine: ClassVar[Engine]

    @initialize()
    def start(self) -> None:
        self.engine.empty()
        self.now = 0
        self.lanes = {name: ModelLane() for name in LANES}
        self.claims: dict[int, Claim] = {}
        self.runner = self.engine.register()
        self.engine.connection.execute("UPDATE regente.runners SET lease_until = 'infinity'")
        self.watch = LaneWatch(self.engine.database.fetch, lambda *_: None)
        self.calls = LaneCalls(self.engine.database.fetch, self.runner, self.watch)
        self.held: list[LaneCall] = []
        for name in LANES:
            self.engine.run(self.engine.client.lanes.set(name, pipeline="alpha", weight=1))

    def _look(self, name: str) -> None:
        """As hints do after the commit of an enqueue."""
        self.engine.run(look_at_lanes(self.engine.database.fetch, [(name, "alpha")]))

    @rule(
        name=st.sampled_from(LANES),
        count=st.integers(1, 4),
        priority=st.sampled_from([5, 0]),
        delay=st.sampled_from([None, None, 25]),
        announced=st.booleans(),
    )
    def enqueue(
        self, name: str, count: int, priority: int, delay: int | None, announced: bool
    ) -> None:
        run_at = None if delay is None else at(self.now + delay)
        ids = self.engine.run(
            self.engine.client.enqueue_many(
                "alpha", [{}] * count, lane=name, priority=priority, run_at=run_at
            )
        )
        for task_id in ids:
            self.lanes[name].queued[task_id] = (rank_of(priority, 0), self.now + (delay or 0))
        if announced:
            self._look(name)
        else:
            self.engine.run(sweep_lanes(self.engine.database))

    @rule()
    def claim_everything(self) -> None:
        expected = {task for lane in self.lanes.values() for task in lane.take(self.now)}
        found: set[int] = set()
        while True:
            claimed = self.engine.run(
                self.engine.stores[self.runner].claim_lanes({"alpha": 500}, 500, 10)
            )
            self.engine.run(look_at_lanes(self.engine.database.fetch, claimed.to_look_at))
            found |= {claim.id for claim in claimed.claims}
            self.claims |= {claim.id: claim for claim in claimed.claims}
            if not claimed.claims:
                break
        assert found == expected

    @rule(free=st.integers(1, 3))
    def claim_some(self, free: int) -> None:
        """Fewer than there are: which lanes come first is not modelled, their limits are."""
        room = {name: lane.room(self.now) for name, lane in self.lanes.items()}
        claimed = self.engine.run(
            self.engine.stores[self.runner].claim_lanes({"alpha": free}, free, 10)
        )
        self.engine.run(look_at_lanes(self.engine.database.fetch, claimed.to_look_at))
        assert len(claimed.claims) <= free
        for name, lane in self.lanes.items():
            taken = [claim.id for claim in claimed.claims if claim.lane == name]
            assert len(taken) <= room[name]
            spare = lane.queued
            lane.queued = {task: spare[task] for task in taken}
            assert sorted(lane.take(self.now)) == sorted(taken)
            lane.queued = {task: due for task, due in spare.items() if task not in taken}
        self.claims |= {claim.id: claim for claim in claimed.claims}

    def _pick(self, pick: int) -> Claim:
        """A claim whose attempt ends, after its calls."""
        claim = self.claims.pop(sorted(self.claims)[pick % len(self.claims)])
        for call in [call for call in self.held if call.claim == claim]:
            self._leave(call, asyncio.CancelledError())
        return claim

    @precondition(lambda self: self.claims)
    @rule(pick=picks, name=st.sampled_from(LANES))
    def enter(self, pick: int, name: str) -> None:
        """A call of an attempt in another lane than its own."""
        claim = self.claims[sorted(self.claims)[pick % len(self.claims)]]
        lane = self.lanes[name]
        is_watched = lane.breaker or lane.rate is not None
        if claim.lane == name or (lane.state == "open" and not is_watched):
            return
        room = lane.room(self.now)
        try:
            call = self.engine.run(self.calls.enter(claim, Lane(name), 0.0, no_beat))
        except LaneBusy:
            assert room == 0
            self.engine.run(self.watch.flush())
            return
        assert room > 0
        assert call.is_watched == is_watched
        lane.calls += 1
        lane.started([claim.id], self.now)
        self.held.append(call)

    @precondition(lambda self: self.held)
    @rule(pick=picks, error=st.sampled_from([None, Transient("x"), Throttled("y", retry_after=20)]))
    def leave(self, pick: int, error: Exception | None) -> None:
        self._leave(self.held[pick % len(self.held)], error)

    def _leave(self, call: LaneCall, error: BaseException | None) -> None:
        verdict, seconds = verdict_of_call(error)
        lane = self.lanes[call.lane]
        if call.is_watched or verdict in ("failed", "throttled"):
            lane.end(call.claim.id, verdict, self.now, seconds)
        lane.calls -= 1
        self.held.remove(call)
        self.engine.run(self.calls.leave(call, error))
        self.engine.run(self.watch.flush())

    def _ended(self, claim: Claim, outcome: Any) -> None:
        self.watch.ended(claim, outcome)
        self.engine.run(self.watch.flush())

    @precondition(lambda self: self.claims)
    @rule(pick=picks)
    def finish(self, pick: int) -> None:
        claim = self._pick(pick)
        store = self.engine.stores[self.runner]
        assert self.engine.run(store.finished.write(Completion(claim, Completed(None), None)))
        watched = claim.lane_is_watched
        lane = self.lanes[claim.lane or ""]
        lane.end(claim.id, "passed" if watched else "untold", self.now)
        self._ended(claim, Completed(None))

    @precondition(lambda self: self.claims)
    @rule(pick=picks, kind=st.sampled_from(["failed", "throttled", "handed back"]))
    def settle(self, pick: int, kind: str) -> None:
        claim = self._pick(pick)
        lane = self.lanes[claim.lane or ""]
        rank = rank_of(claim.priority, claim.attempt)
        failure = Failure("throttled" if kind == "throttled" else "transient", "X", "x")
        outcome = {
            "failed": Ended("queued", "task_retried", 0, 10.0, failure),
            "throttled": Ended("queued", "task_throttled", delay_seconds=20.0, failure=failure),
            "handed back": Ended("queued", "task_handed_back", delay_seconds=None),
        }[kind]
        due = {"failed": self.now + 10, "throttled": self.now + 20, "handed back": claim.run_at}
        assert self.engine.settle(self.runner, claim, outcome)
        run_at = due[kind] if kind != "handed back" else claim.run_at - at(0).timestamp()
        verdict = "untold" if kind == "handed back" else kind
        lane.end(claim.id, verdict, self.now, 20.0)
        lane.queued[claim.id] = (rank, run_at)
        self._ended(claim, outcome)

    @rule(name=st.sampled_from(LANES), limit=st.sampled_from([None, 1, 2, 3]))
    def limit_concurrency(self, name: str, limit: int | None) -> None:
        self.engine.run(self.engine.client.lanes.set(name, concurrency=limit))
        self.lanes[name].concurrency = limit

    @rule(name=st.sampled_from(LANES), rate=st.sampled_from([None, 0.5, 2.0]))
    def limit_rate(self, name: str, rate: float | None) -> None:
        self.engine.run(self.engine.client.lanes.set(name, rate=rate, burst=2, min_rate=rate))
        self.lanes[name].rate, self.lanes[name].burst = rate, 2

    @rule(name=st.sampled_from(LANES), on=st.booleans())
    def set_breaker(self, name: str, on: bool) -> None:
        self.engine.run(self.engine.client.lanes.set(name, breaker=BREAKER if on else 0))
        self.lanes[name].breaker = on

    @rule(name=st.sampled_from(LANES))
    def park(self, name: str) -> None:
        self.engine.run(self.engine.client.lanes.park(name, seconds=40))
        self.lanes[name].parked_until = self.now + 40

    @rule(name=st.sampled_from(LANES))
    def open(self, name: str) -> None:
        self.engine.run(self.engine.client.lanes.open(name))
        self.lanes[name].open()

    @rule(seconds=st.sampled_from([1, 10, 30, 120]))
    def time_passes(self, seconds: int) -> None:
        self.engine.advance(seconds)
        self.now += seconds

    @rule()
    def statistics_are_gathered(self) -> None:
        """ANALYZE may change the plan, never the result."""
        self.engine.connection.execute(
            "ANALYZE regente.tasks, regente.lanes, regente.lane_queues, regente.lane_calls, "
            "regente.runners"
        )

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        """I1, I5."""
        rows = self.engine.query(
            "SELECT lane, id, status::text FROM regente.tasks WHERE status IN ('queued', 'running')"
        )
        assert sorted(rows) == sorted(
            (name, task_id, status)
            for name, lane in self.lanes.items()
            for status, ids in (("queued", lane.queued), ("running", lane.running))
            for task_id in ids
        )
        states = self.engine.query("SELECT name, breaker_state::text FROM regente.lanes")
        assert sorted(states) == sorted((name, lane.state) for name, lane in self.lanes.items())

    @invariant()
    def the_audit_finds_nothing(self) -> None:
        """I3, I4, I6."""
        assert audit(self.engine.connection) == []


async def no_beat() -> None:
    """The model's attempts do not stall."""


def test_lanes_follow_the_model(database_url: str) -> None:
    """Q2, I1, I5: over random histories."""
    with engine_on(database_url) as engine:
        LanesFollowModel.engine = engine
        run_state_machine_as_test(LanesFollowModel, settings=PROFILE)
