"""What the engine should do, as plain Python: no database, no concurrency, time as a number.

Written from the state machine and the invariants, not from the SQL; the two are compared after
every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LEASE_SECONDS = 60
SPARED_SECONDS = 30
STALL_SECONDS = 50
BATCH_STALL_SECONDS = 100
MAX_CRASHES = 3
MAX_ATTEMPTS = 2
MAX_RESUMES = 1
SUSPICIOUS = 2
MAX_AMNESTIES = 2

KEEPS_PLACE_ATTEMPTS = 10
LIVE = ("draft", "queued", "running")
ENDED_BATCH = ("completed", "failed", "canceled")


@dataclass
class ModelTask:
    id: int
    pipeline: str
    status: str
    priority: int
    run_at: int
    batch: int | None
    attempt: int = 0
    tries: int = 0
    crashes: int = 0
    runner: int | None = None
    heartbeat: int = 0
    created_at: int = 0
    unwanted: bool = False
    steps: dict[str, int] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        return 2 * self.priority + (1 if 1 <= self.attempt <= KEEPS_PLACE_ATTEMPTS else 0)

    def leave(self, status: str) -> None:
        self.status, self.runner, self.unwanted = status, None, False


@dataclass
class ModelRunner:
    """It serves every pipeline."""

    id: int
    heartbeat: int
    lease_until: int
    started_at: int
    status: str = "running"
    amnesties: int = 0


@dataclass
class ModelBatch:
    id: int
    progress_at: int
    status: str = "pending"
    total: int = 0
    resumes: int = 0


@dataclass(frozen=True)
class ClaimedTask:
    """A claim as its runner remembers it; it may be outdated."""

    task_id: int
    runner_id: int
    attempt: int


class Model:
    def __init__(self) -> None:
        self.now = 0
        self.tasks: dict[int, ModelTask] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.runners: dict[int, ModelRunner] = {}
        self.batches: dict[int, ModelBatch] = {}
        self.paused: set[str] = set()

    # Tasks come in.

    def accept(self, task: ModelTask, key: str | None) -> None:
        if key is not None:
            known = self.keys.setdefault((task.pipeline, key), task.id)
            if known in self.tasks:
                assert known == task.id
                return
        assert task.id not in self.tasks
        self.tasks[task.id], task.created_at = task, self.now
        if task.batch is not None:
            batch = self.batches[task.batch]
            batch.total += 1
            batch.progress_at = self.now
            self._reopen(batch)

    def owner(self, pipeline: str, key: str, unique: str | int) -> ModelTask | None:
        """The task that a key belongs to; one whose time with it is over loses it."""
        owner = self.tasks.get(self.keys.get((pipeline, key), -1))
        if owner is None:
            return None
        ended = owner.status not in LIVE
        is_free = (
            owner.created_at + unique <= self.now
            if isinstance(unique, int)
            else (unique == "until_done" and ended)
            or (unique == "until_started" and (ended or owner.attempt > 0))
        )
        if is_free:
            del self.keys[pipeline, key]
        return None if is_free else owner

    def replace(self, owner: ModelTask, priority: int, run_at: int) -> None:
        if owner.attempt == 0:
            self.change(owner, priority, run_at)

    def change(self, task: ModelTask, priority: int, run_at: int) -> bool:
        if task.status not in ("draft", "queued"):
            return False
        task.priority, task.run_at = priority, run_at
        return True

    def queue(self, task: ModelTask) -> bool:
        if task.status != "draft":
            return False
        task.status, task.run_at = "queued", max(task.run_at, self.now)
        if task.batch is not None:
            self._reopen(self.batches[task.batch])
        return True

    # Runners.

    def register(self, runner_id: int) -> None:
        for silent in self._silent():
            self._spare(silent)
        self.runners[runner_id] = ModelRunner(
            runner_id, self.now, self.now + LEASE_SECONDS, self.now
        )

    def renew(self, runner: ModelRunner) -> bool:
        if runner.heartbeat < self.now - LEASE_SECONDS / 2:
            for silent in self._silent():
                if silent is not runner:
                    self._spare(silent)
        if runner.status != "running":
            return False
        runner.heartbeat, runner.amnesties = self.now, 0
        runner.lease_until = self.now + LEASE_SECONDS
        return True

    def _nobody_renewed(self) -> bool:
        """Whether no runner has renewed for half a lease: the database was away."""
        alive = [runner for runner in self.runners.values() if runner.status == "running"]
        newest = max((runner.heartbeat for runner in alive), default=self.now)
        return newest < self.now - LEASE_SECONDS / 2

    def _silent(self) -> list[ModelRunner]:
        if not self._nobody_renewed():
            return []
        return [
            runner
            for runner in self.runners.values()
            if runner.status == "running"
            and runner.amnesties < MAX_AMNESTIES
            and runner.lease_until < self.now + (LEASE_SECONDS / 2 if runner.amnesties == 0 else 0)
        ]

    def _spare(self, runner: ModelRunner) -> None:
        runner.lease_until = self.now + SPARED_SECONDS
        runner.amnesties += 1

    def claim(self, runner_id: int, levels: list[tuple[str, int]], free: int) -> list[ClaimedTask]:
        picked: list[ModelTask] = []
        for pipeline, rank in levels:
            due = [t for t in self._due(pipeline) if t.rank == rank and t.crashes < SUSPICIOUS]
            picked += sorted(due, key=lambda t: (t.run_at, t.id))[:free]
        return self._take(runner_id, picked[:free])

    def claim_suspect(self, runner_id: int, pipelines: list[str]) -> list[ClaimedTask]:
        due = [t for pipeline in pipelines for t in self._due(pipeline) if t.crashes >= SUSPICIOUS]
        return self._take(runner_id, sorted(due, key=lambda t: (t.run_at, t.id))[:1])

    def _due(self, pipeline: str) -> list[ModelTask]:
        if pipeline in self.paused:
            return []
        return [
            t
            for t in self.tasks.values()
            if t.pipeline == pipeline and t.status == "queued" and t.run_at <= self.now
        ]

    def _take(self, runner_id: int, picked: list[ModelTask]) -> list[ClaimedTask]:
        runner = self.runners[runner_id]
        if runner.status != "running" or runner.lease_until <= self.now:
            return []
        for task in picked:
            task.status, task.runner, task.attempt, task.heartbeat = (
                "running",
                runner_id,
                task.attempt + 1,
                self.now,
            )
        return [ClaimedTask(task.id, runner_id, task.attempt) for task in picked]

    def holds(self, held: ClaimedTask) -> bool:
        """The fence: whether a write for this claim is accepted."""
        task = self.tasks[held.task_id]
        return (
            task.status == "running"
            and task.runner == held.runner_id
            and task.attempt == held.attempt
        )

    def record(self, held: ClaimedTask, step: str) -> bool:
        if not self.holds(held):
            return False
        task = self.tasks[held.task_id]
        task.steps.setdefault(step, held.attempt)
        task.heartbeat = self.now
        return True

    def finish(self, held: ClaimedTask) -> bool:
        if not self.holds(held):
            return False
        self.tasks[held.task_id].leave("completed")
        return True

    def settle(
        self,
        held: ClaimedTask,
        status: str,
        charged: int,
        delay: float | None,
        sleep: str | None = None,
    ) -> bool:
        if not self.holds(held):
            return False
        task = self.tasks[held.task_id]
        task.tries += charged
        if sleep is not None:
            task.steps.setdefault(sleep, held.attempt)
        if status == "queued" and task.unwanted:
            status = "canceled"
        if status == "queued" and delay is not None:  # else it keeps its place
            task.run_at = self.now + int(delay)
        task.leave(status)
        return True

    def hand_back_all(self, runner_id: int) -> None:
        for task in self._held_by(runner_id):
            task.leave("canceled" if task.unwanted else "queued")

    def reap(self) -> None:
        outage = self._nobody_renewed()
        for runner in self.runners.values():
            if runner.status == "running" and runner.lease_until < self.now:
                if outage and runner.amnesties < MAX_AMNESTIES:
                    self._spare(runner)
                else:
                    runner.status = "lost"
            if runner.status != "running":
                self._bury(runner)

    def _bury(self, runner: ModelRunner) -> None:
        orphans = self._held_by(runner.id)
        suspects = [task for task in orphans if task.crashes >= SUSPICIOUS]
        if runner.status == "lost":
            for task in suspects or orphans:
                task.crashes += 1
        for task in orphans:
            task.leave(
                "canceled"
                if task.unwanted
                else "failed"
                if task.crashes >= MAX_CRASHES
                else "queued"
            )

    def release_stalled(self) -> None:
        for task in self.tasks.values():
            if task.status != "running" or task.runner is None:
                continue
            spared = self.runners[task.runner].amnesties > 0
            if not spared and task.heartbeat < self.now - 2 * STALL_SECONDS:
                task.tries += 1
                task.run_at = self.now
                task.leave(
                    "canceled"
                    if task.unwanted
                    else "failed"
                    if task.tries >= MAX_ATTEMPTS
                    else "queued"
                )

    def _held_by(self, runner_id: int) -> list[ModelTask]:
        return [task for task in self.tasks.values() if task.runner == runner_id]

    # Operators.

    def cancel(self, task: ModelTask) -> str | None:
        if task.status in ("draft", "queued"):
            task.leave("canceled")
            return "canceled"
        if task.status == "running":
            task.unwanted = True
            return "canceling"
        return "canceled" if task.status == "canceled" else None

    def retry(self, task: ModelTask) -> bool:
        if task.status not in ("failed", "canceled", "skipped"):
            return False
        task.leave("queued")
        task.tries = task.crashes = 0
        task.run_at = self.now
        if task.batch is not None:
            self._reopen(self.batches[task.batch])
        return True

    # Batches.

    def children(self, batch_id: int) -> list[ModelTask]:
        return [task for task in self.tasks.values() if task.batch == batch_id]

    def review(self, touched: int | None = None) -> None:
        for batch in self.batches.values():
            if batch.status not in ENDED_BATCH and touched in (None, batch.id):
                self._look_at(batch, just_moved=touched is not None)

    def _look_at(self, batch: ModelBatch, just_moved: bool) -> None:
        children = self.children(batch.id)
        beats = (
            [self.now]
            if just_moved
            else [task.heartbeat for task in children if task.status == "running"]
        )
        moved_at = max(beats, default=None)
        silent_since = self.now - BATCH_STALL_SECONDS
        if (batch.total or batch.progress_at < silent_since) and not any(
            task.status in LIVE for task in children
        ):
            batch.status = "completed"
        elif moved_at is not None and moved_at > silent_since:
            batch.status = "running"
        elif max(
            batch.progress_at, *beats, batch.progress_at
        ) < silent_since and self._waits_in_vain(children):
            in_vain = batch.resumes >= MAX_RESUMES and self._was_served()
            batch.status = "failed" if in_vain else "stalled"
        batch.progress_at = max(batch.progress_at, *beats, batch.progress_at)
        if batch.status == "failed":
            for task in children:
                if task.status in ("queued", "running"):
                    task.leave("failed")

    def _was_served(self) -> bool:
        return any(
            runner.status == "running"
            and runner.heartbeat > self.now - LEASE_SECONDS
            and runner.started_at <= self.now - BATCH_STALL_SECONDS
            for runner in self.runners.values()
        )

    def _waits_in_vain(self, children: list[ModelTask]) -> bool:
        late = self.now - BATCH_STALL_SECONDS
        return any(
            task.pipeline not in self.paused
            and (task.status == "running" or (task.status == "queued" and task.run_at < late))
            for task in children
        )

    def resume(self, batch: ModelBatch) -> bool:
        if batch.status != "stalled":
            return False
        batch.status, batch.resumes, batch.progress_at = "running", batch.resumes + 1, self.now
        for task in self.children(batch.id):
            if (
                task.status == "running"
                and task.heartbeat < self.now - BATCH_STALL_SECONDS
                and not task.unwanted
            ):
                task.leave("queued")
        return True

    def cancel_rest(self, batch: ModelBatch) -> None:
        if batch.status not in ENDED_BATCH:
            batch.status = "canceled"
        for task in self.children(batch.id):
            self.cancel(task)

    def _reopen(self, batch: ModelBatch) -> None:
        if batch.status in ENDED_BATCH:
            batch.status, batch.progress_at = "running", self.now
