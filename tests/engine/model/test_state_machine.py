"""The engine against a model: any order of actions of clients, runners, sweeps and operators.

After every step the rows must be the model's (I1, I2, I5, I7, I9), and the auditor, who knows
neither, must find nothing (I3, I4, I6). `HYPOTHESIS_PROFILE=long` tries many more.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

import pytest
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

from regente import AlreadyEnqueued, IllegalTransition
from regente.engine.outcome import Ended, Failure
from regente.engine.task_store import Claim
from regente.engine.uniqueness import OnConflict, Unique
from tests.engine.model.engine import LEVELS, PIPELINES, PRIORITIES, Engine, at, engine_on
from tests.engine.model.model import (
    LEASE_SECONDS,
    MAX_CRASHES,
    MAX_RESUMES,
    ClaimedTask,
    Model,
    ModelBatch,
    ModelRunner,
    ModelTask,
)
from tests.support.audit import audit

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
PROFILE = settings(
    max_examples=2000 if LONG else 60,
    stateful_step_count=60 if LONG else 40,
    derandomize=not LONG,
    deadline=None,
    database=None,
    print_blob=True,
    phases=(Phase.generate,)
    if "REGENTE_TEST_MUTANT" in os.environ
    else (Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)

FAILURE = Failure("transient", "FAILED", "it failed")
ENDS: dict[str, Ended] = {
    "throttled": Ended(
        "queued", "task_throttled", delay_seconds=30, failure=Failure("throttled", "SLOW", "wait")
    ),
    "sleeping": Ended("queued", "task_sleeping", delay_seconds=20, sleep_step="sleep"),
    "handed back": Ended("queued", "task_handed_back", delay_seconds=None),
    "skipped": Ended("skipped", "task_skipped", details={"reason": "nothing to do"}),
    "canceled": Ended("canceled", "task_canceled"),
    "fatal": Ended("failed", "task_failed", charged=1, failure=FAILURE, details={"code": "FAILED"}),
}

picks = st.integers(0, 10**6)


class EngineFollowsModel(RuleBasedStateMachine):
    engine: ClassVar[Engine]

    @initialize()
    def start(self) -> None:
        self.engine.empty()
        self.model = Model()
        self.claims: list[tuple[Claim, ClaimedTask]] = []
        self.highest_fence: dict[int, int] = {}
        for _ in range(2):
            self.start_runner()

    # Clients.

    @rule(
        pipeline=st.sampled_from(PIPELINES),
        priority=st.sampled_from(PRIORITIES),
        key=st.sampled_from([None, None, "k1", "k2"]),
        delay=st.sampled_from([None, None, 25]),
        draft=st.booleans(),
        pick=st.one_of(st.none(), picks),
    )
    def enqueue(
        self,
        pipeline: str,
        priority: int,
        key: str | None,
        delay: int | None,
        draft: bool,
        pick: int | None,
    ) -> None:
        batch = self._batch(pick).id if pick is not None and self.model.batches else None
        run_at = None if delay is None else at(self.model.now + delay)
        task_id = self.engine.run(
            self.engine.client.enqueue(
                pipeline, key=key, priority=priority, run_at=run_at, batch=batch, draft=draft
            )
        )
        status, due = "draft" if draft else "queued", self.model.now + (delay or 0)
        self.model.accept(ModelTask(task_id, pipeline, status, priority, due, batch), key)

    @rule(
        pipeline=st.sampled_from(PIPELINES),
        key=st.sampled_from(["k1", "k2"]),
        unique=st.sampled_from(["ever", "until_done", "until_started", 40]),
        on_conflict=st.sampled_from(["return", "replace", "error"]),
        priority=st.sampled_from(PRIORITIES),
        delay=st.sampled_from([None, 25]),
        pick=st.one_of(st.none(), picks),
    )
    def enqueue_unique(
        self,
        pipeline: str,
        key: str,
        unique: Unique,
        on_conflict: OnConflict,
        priority: int,
        delay: int | None,
        pick: int | None,
    ) -> None:
        batch = self._batch(pick).id if pick is not None and self.model.batches else None
        due = self.model.now + (delay or 0)
        options: dict[str, Any] = {"unique": unique, "on_conflict": on_conflict, "batch": batch}
        run_at = None if delay is None else at(due)
        put = self.engine.client.enqueue(
            pipeline, key=key, priority=priority, run_at=run_at, **options
        )
        owner = self.model.owner(pipeline, key, unique)  # type: ignore[arg-type]
        if owner is None:
            task_id = self.engine.run(put)
            assert task_id.created
            self.model.accept(ModelTask(task_id, pipeline, "queued", priority, due, batch), key)
            return
        if on_conflict == "error":
            with pytest.raises(AlreadyEnqueued) as taken:
                self.engine.run(put)
            assert taken.value.task_id == owner.id
            return
        found = self.engine.run(put)
        assert (found, found.created) == (owner.id, False)
        if on_conflict == "replace":
            self.model.replace(owner, priority, due)

    @precondition(lambda self: self.model.tasks)
    @rule(pick=picks, priority=st.sampled_from(PRIORITIES), delay=st.sampled_from([None, 25]))
    def change(self, pick: int, priority: int, delay: int | None) -> None:
        task, due = self._task(pick), self.model.now + (delay or 0)
        changed = self.engine.run(
            self.engine.client.change_many(
                [task.id], priority=priority, run_at=None if delay is None else at(due)
            )
        )
        assert bool(changed) == self.model.change(task, priority, due)

    @rule(count=st.integers(1, 4), pick=st.one_of(st.none(), picks))
    def enqueue_many(self, count: int, pick: int | None) -> None:
        batch = self._batch(pick).id if pick is not None and self.model.batches else None
        for task_id in self.engine.run(
            self.engine.client.enqueue_many("alpha", [{} for _ in range(count)], batch=batch)
        ):
            self.model.accept(ModelTask(task_id, "alpha", "queued", 0, self.model.now, batch), None)

    @precondition(lambda self: self.model.tasks)
    @rule(pick=picks)
    def queue_draft(self, pick: int) -> None:
        task = self._task(pick)
        assert bool(self.engine.run(self.engine.client.queue([task.id]))) == self.model.queue(task)

    # Runners.

    @rule()
    def start_runner(self) -> None:
        runner_id = self.engine.register()
        self.model.register(runner_id)

    @rule(pick=picks)
    def renew(self, pick: int) -> None:
        runner = self._runner(pick)
        assert self.engine.renew(runner.id) == self.model.renew(runner)

    @rule(pick=picks, hands_back=st.booleans())
    def stop_runner(self, pick: int, hands_back: bool) -> None:
        runner = self._runner(pick)
        if hands_back:
            self.engine.hand_back_all(runner.id)
            self.model.hand_back_all(runner.id)
        self.engine.stop_runner(runner.id)
        runner.status = "stopped" if runner.status == "running" else runner.status

    @rule(pick=picks, free=st.integers(1, 4))
    def claim(self, pick: int, free: int) -> None:
        runner = self._runner(pick)
        self._remember(
            self.engine.claim(runner.id, free), self.model.claim(runner.id, LEVELS, free)
        )

    @rule(pick=picks)
    def claim_suspect(self, pick: int) -> None:
        runner = self._runner(pick)
        self._remember(
            self.engine.claim_suspect(runner.id),
            self.model.claim_suspect(runner.id, list(PIPELINES)),
        )

    @precondition(lambda self: self.claims)
    @rule(pick=picks, step=st.sampled_from(["FIRST", "SECOND"]))
    def record_step(self, pick: int, step: str) -> None:
        claim, held = self._claim(pick)
        assert self.engine.record(held.runner_id, claim, step) == self.model.record(held, step)

    @precondition(lambda self: self.claims)
    @rule(pick=picks)
    def finish(self, pick: int) -> None:
        claim, held = self._claim(pick)
        assert self.engine.finish(held.runner_id, claim) == self.model.finish(held)

    @precondition(lambda self: self.claims)
    @rule(pick=picks, end=st.sampled_from(sorted(ENDS)))
    def settle(self, pick: int, end: str) -> None:
        claim, held = self._claim(pick)
        outcome = ENDS[end]
        expected = self.model.settle(
            held, outcome.status, outcome.charged, outcome.delay_seconds, outcome.sleep_step
        )
        assert self.engine.settle(held.runner_id, claim, outcome) == expected

    @precondition(lambda self: self.claims)
    @rule(pick=picks)
    def fail_by_its_own_fault(self, pick: int) -> None:
        claim, held = self._claim(pick)
        outcome = self.engine.failed_attempt(held.runner_id, claim)
        expected = self.model.settle(held, outcome.status, 1, outcome.delay_seconds)
        assert self.engine.settle(held.runner_id, claim, outcome) == expected

    @precondition(lambda self: self.claims)
    @rule(pick=picks, other_pick=picks)
    def write_by_another_runner(self, pick: int, other_pick: int) -> None:
        """I3, I4: id and attempt are right, the runner is not."""
        claim, held = self._claim(pick)
        other = self._runner(other_pick)
        if other.id != held.runner_id:
            assert not self.engine.finish(other.id, claim)
            assert not self.engine.record(other.id, claim, "STOLEN")
            assert not self.engine.settle(other.id, claim, ENDS["fatal"])

    # Time and recovery.

    @rule(seconds=st.sampled_from([5, 30, LEASE_SECONDS + 1, 120]))
    def time_passes(self, seconds: int) -> None:
        self.engine.advance(seconds)
        self.model.now += seconds

    @rule()
    def statistics_are_gathered(self) -> None:
        """ANALYZE may change the plan, never the result."""
        self.engine.connection.execute(
            "ANALYZE regente.tasks, regente.pipelines, regente.runners, regente.batches"
        )

    @rule()
    def reap(self) -> None:
        self.engine.reap()
        self.model.reap()

    @rule()
    def release_stalled(self) -> None:
        self.engine.release_stalled()
        self.model.release_stalled()

    # Operators.

    @precondition(lambda self: self.model.tasks)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        task = self._task(pick)
        assert self._answer(self.engine.client.cancel(task.id)) == self.model.cancel(task)

    @precondition(lambda self: self.model.tasks)
    @rule(pick=picks)
    def retry(self, pick: int) -> None:
        task = self._task(pick)
        refused = (
            "refused"
            if self._answer(self.engine.client.retry(task.id), refused="refused")
            else None
        )
        assert (refused is None) == self.model.retry(task)

    @precondition(lambda self: self.model.tasks)
    @rule(pick=picks)
    def discard(self, pick: int) -> None:
        task = self._task(pick)
        dead = task.status == "failed"
        assert bool(self.engine.run(self.engine.client.discard([task.id]))) == dead
        if dead:
            task.leave("canceled")

    @rule(pipeline=st.sampled_from(PIPELINES))
    def pause_or_resume(self, pipeline: str) -> None:
        if pipeline in self.model.paused:
            self.engine.run(self.engine.client.resume(pipeline))
        else:
            self.engine.run(self.engine.client.pause(pipeline))
        self.model.paused ^= {pipeline}

    # Batches.

    @precondition(lambda self: len(self.model.batches) < 3)
    @rule()
    def open_batch(self) -> None:
        name = f"batch {len(self.model.batches)}"
        batch_id = self.engine.run(
            self.engine.client.open_batch(name, stall_after=100, max_resumes=MAX_RESUMES)
        )
        self.model.batches[batch_id] = ModelBatch(batch_id, self.model.now)

    @rule()
    def review_batches(self) -> None:
        self.engine.review()
        self.model.review()

    @precondition(lambda self: self.model.batches)
    @rule(pick=picks)
    def review_touched_batch(self, pick: int) -> None:
        batch = self._batch(pick)
        self.engine.review(batch.id)
        self.model.review(batch.id)

    @precondition(lambda self: self.model.batches)
    @rule(pick=picks)
    def resume_batch(self, pick: int) -> None:
        batch = self._batch(pick)
        assert self.engine.run(
            self.engine.client.resume_batch(batch.id)
        ).resumed == self.model.resume(batch)

    @precondition(lambda self: self.model.batches)
    @rule(pick=picks)
    def reprocess_batch(self, pick: int) -> None:
        batch = self._batch(pick)
        failed = [task for task in self.model.children(batch.id) if task.status == "failed"]
        assert self.engine.run(self.engine.client.reprocess_batch(batch.id)) == sorted(
            task.id for task in failed
        )
        for task in failed:
            self.model.retry(task)

    @precondition(lambda self: self.model.batches)
    @rule(pick=picks)
    def cancel_batch(self, pick: int) -> None:
        batch = self._batch(pick)
        self.engine.run(self.engine.client.cancel_batch(batch.id))
        self.model.cancel_rest(batch)

    # What must hold after every step.

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        """I1, I2, I5, I7, I9."""
        seconds = "extract(epoch FROM {} - '2026-01-01 00:00:00+00'::timestamptz)::integer"
        tasks = self.engine.query(
            f"SELECT id, pipeline, status::text, priority, {seconds.format('run_at')}, "
            "batch_id, attempt, tries, crashes,"
            " runner_id, cancel_requested_at IS NOT NULL FROM regente.tasks ORDER BY id"
        )
        assert tasks == [
            (
                t.id,
                t.pipeline,
                t.status,
                t.priority,
                t.run_at,
                t.batch,
                t.attempt,
                t.tries,
                t.crashes,
                t.runner,
                t.unwanted,
            )
            for t in sorted(self.model.tasks.values(), key=lambda t: t.id)
        ]
        keys = self.engine.query(
            "SELECT pipeline, key, id FROM regente.tasks WHERE key IS NOT NULL ORDER BY 1, 2"
        )
        assert keys == sorted((*key, task_id) for key, task_id in self.model.keys.items())
        steps = self.engine.query("SELECT task_id, name, attempt FROM regente.steps ORDER BY 1, 2")
        assert steps == sorted(
            (t.id, name, n) for t in self.model.tasks.values() for name, n in t.steps.items()
        )
        batches = self.engine.query(
            f"SELECT id, status::text, total, resumes, {seconds.format('progress_at')} "
            "FROM regente.batches ORDER BY id"
        )
        assert batches == [
            (b.id, b.status, b.total, b.resumes, b.progress_at) for b in self.model.batches.values()
        ]
        runners = self.engine.query("SELECT id, status::text FROM regente.runners ORDER BY id")
        assert runners == sorted((r.id, r.status) for r in self.model.runners.values())

    @invariant()
    def the_audit_finds_nothing(self) -> None:
        """I3, I4, I6, I9."""
        assert audit(self.engine.connection) == []

    @invariant()
    def attempts_are_bounded_and_fences_only_rise(self) -> None:
        """I3, I7."""
        for task_id, attempt, crashes, status in self.engine.query(
            "SELECT id, attempt, crashes, status::text FROM regente.tasks"
        ):
            assert attempt >= self.highest_fence.get(task_id, 0)
            assert crashes < MAX_CRASHES or status in ("failed", "canceled")
            self.highest_fence[task_id] = attempt

    # Private.

    def _task(self, pick: int) -> ModelTask:
        return list(self.model.tasks.values())[pick % len(self.model.tasks)]

    def _runner(self, pick: int) -> ModelRunner:
        return list(self.model.runners.values())[-1 - pick % min(4, len(self.model.runners))]

    def _batch(self, pick: int) -> ModelBatch:
        return list(self.model.batches.values())[pick % len(self.model.batches)]

    def _claim(self, pick: int) -> tuple[Claim, ClaimedTask]:
        """Any earlier claim, recent ones more often."""
        return self.claims[-1 - (pick % len(self.claims)) * (pick % 3 == 0)]

    def _remember(self, found: list[Claim], expected: list[ClaimedTask]) -> None:
        held = {item.task_id: item for item in expected}
        assert {(claim.id, claim.attempt) for claim in found} == {
            (item.task_id, item.attempt) for item in expected
        }
        self.claims += [(claim, held[claim.id]) for claim in found]

    def _answer(self, work: Any, refused: str | None = None) -> Any:
        try:
            return self.engine.run(work)
        except IllegalTransition:
            return refused


def test_the_engine_follows_the_model(database_url: str) -> None:
    """I1 to I7 and I9, over random histories."""
    with engine_on(database_url) as engine:
        EngineFollowsModel.engine = engine
        run_state_machine_as_test(EngineFollowsModel, settings=PROFILE)
