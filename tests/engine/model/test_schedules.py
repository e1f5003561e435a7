"""A schedule against a model: any order of sweeps, sweeps that die, ends of tasks, pauses, deploys
and time.

The model counts in minutes and knows nothing of cron: it says what becomes of every time, so a time
that is lost, run twice, or run beside an unfinished one fails (I5, Q4).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from regente.engine.watchdog import schedules
from regente.engine.watchdog.schedules import ScheduleSweep
from tests.engine.model.engine import EPOCH, Engine, engine_on
from tests.engine.model.test_lanes import PROFILE
from tests.support.audit import audit

EVERY = 5  # minutes
CRON = f"*/{EVERY} * * * *"
overlaps = st.sampled_from(["allow", "skip", "queue"])
catch_ups = st.sampled_from(["none", "one", "all"])


class Died(Exception):
    """In place of a SIGKILL: the transaction is rolled back."""


class ScheduleFollowsModel(RuleBasedStateMachine):
    engine: ClassVar[Engine]

    @initialize(overlap=overlaps, catch_up=catch_ups)
    def start(self, overlap: str, catch_up: str) -> None:
        self.engine.empty()
        self.now, self.next = 0, EVERY
        self.paused = False
        self.states: dict[int, str] = {}  # of the times that were not missed
        self.missed: set[int] = set()
        self.tasks: list[int] = []  # the times, in the order of their tasks
        self.unfinished: set[int] = set()  # positions in `tasks`
        self.deploy(overlap, catch_up)

    @rule(overlap=overlaps, catch_up=catch_ups)
    def deploy(self, overlap: Any, catch_up: Any) -> None:
        self.overlap, self.catch_up = overlap, catch_up
        rules = {"overlap": overlap, "catch_up": catch_up}
        self.engine.run(self.engine.client.schedule("s", "alpha", CRON, **rules))

    @rule(minutes=st.sampled_from([1, EVERY, EVERY, 2 * EVERY + 1, 40]))
    def time_passes(self, minutes: int) -> None:
        self.engine.advance(60 * minutes)
        self.now += minutes

    @rule()
    def sweep(self) -> None:
        self._start_waiting()
        self._fire_due()
        self.engine.run(ScheduleSweep(self.engine.database, 1).run_once())

    @rule(point=st.sampled_from(["schedule.before_commit", "schedule.fired"]))
    def sweep_that_dies(self, point: str) -> None:
        def die(passed: str) -> None:
            if passed == point:
                raise Died

        starts = self._start_waiting()
        due = not self.paused and self.next <= self.now
        dies = due
        if point == "schedule.fired":
            dies = self._fire_due() or starts
        work = ScheduleSweep(self.engine.database, 1).run_once()
        with mock.patch.object(schedules, "crash_point", die):
            if dies:
                with pytest.raises(Died):
                    self.engine.run(work)
            else:
                self.engine.run(work)

    @precondition(lambda self: self.unfinished)
    @rule(pick=st.integers(0, 10**6))
    def task_ends(self, pick: int) -> None:
        position = sorted(self.unfinished)[pick % len(self.unfinished)]
        self.unfinished.remove(position)
        ids = self.engine.query("SELECT id FROM regente.tasks ORDER BY id")
        self.engine.run(self.engine.client.cancel(ids[position][0]))

    @rule()
    def pause(self) -> None:
        self.engine.run(self.engine.client.pause_schedule("s"))
        self.paused = True

    @rule(skip_missed=st.booleans())
    def resume(self, skip_missed: bool) -> None:
        self.engine.run(self.engine.client.resume_schedule("s", skip_missed=skip_missed))
        if self.paused and skip_missed:
            self.next = max(self.next, EVERY * (self.now // EVERY + 1))
        self.paused = False

    def _busy(self) -> bool:
        return len(self.tasks) - 1 in self.unfinished

    def _waiting(self) -> list[int]:
        return sorted(time for time, state in self.states.items() if state == "waiting")

    def _queue(self, time: int) -> None:
        self.states[time] = "queued"
        self.tasks.append(time)
        self.unfinished.add(len(self.tasks) - 1)

    def _start_waiting(self) -> bool:
        starts = not self.paused and bool(self._waiting()) and not self._busy()
        if starts:
            self._queue(self._waiting()[0])
        return starts

    def _fire_due(self) -> bool:
        """True when a task is queued."""
        due = [] if self.paused else list(range(self.next, self.now + 1, EVERY))
        if not due:
            return False
        runs = due if self.catch_up == "all" else due[-1:]
        if self.catch_up == "none" and self.now - due[-1] > 1:
            runs = []
        self.missed |= {*due} - {*runs}
        before = len(self.tasks)
        free = not self._busy() and not self._waiting()
        for place, time in enumerate(runs):
            if self.overlap == "allow" or (free and place == 0):
                self._queue(time)
            else:
                self.states[time] = "skipped" if self.overlap == "skip" else "waiting"
        self.next = due[-1] + EVERY
        return len(self.tasks) > before

    @invariant()
    def every_time_is_as_the_model_says(self) -> None:
        """I5, Q4: none lost, none twice."""
        rows = self.engine.query(
            "SELECT due_at, state, times FROM regente.schedule_runs ORDER BY due_at"
        )
        found = {minute_of(due_at): state for due_at, state, _ in rows if state != "missed"}
        assert found == self.states
        gaps = [(minute_of(due_at), times) for due_at, state, times in rows if state == "missed"]
        missed = [begin + EVERY * n for begin, times in gaps for n in range(times)]
        assert sorted(missed) == sorted(self.missed)

    @invariant()
    def every_run_has_one_task(self) -> None:
        """I5."""
        rows = self.engine.query(
            "SELECT r.due_at FROM regente.tasks t"
            " LEFT JOIN regente.schedule_runs r ON r.task_id = t.id ORDER BY t.id"
        )
        assert [minute_of(due_at) for (due_at,) in rows] == self.tasks

    @invariant()
    def the_audit_finds_nothing(self) -> None:
        """I6: with an event for every task."""
        assert audit(self.engine.connection) == []


def minute_of(moment: Any) -> int:
    return int((moment - EPOCH) / timedelta(minutes=1))


def test_a_schedule_follows_the_model(database_url: str) -> None:
    """Q4, I5: over random histories."""
    with engine_on(database_url) as engine:
        ScheduleFollowsModel.engine = engine
        run_state_machine_as_test(ScheduleFollowsModel, settings=PROFILE)
