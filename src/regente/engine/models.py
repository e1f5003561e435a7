"""The read models of tasks, batches, runners and events, for programs, CLI and API alike.

A field with `exclude=True` is for programs and the command line; the API does not show it.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from regente.engine.errors import RegenteError

TaskStatus = Literal["draft", "queued", "running", "completed", "failed", "canceled", "skipped"]
BatchStatus = Literal["pending", "running", "stalled", "completed", "failed", "canceled"]
RunnerStatus = Literal["running", "draining", "stopped", "lost"]
LaneStatus = Literal["idle", "waiting", "running", "full", "parked"]
ScheduleRunState = Literal["queued", "waiting", "skipped", "missed"]
ReplayVerdict = Literal["understood", "mismatch", "unasked", "fails", "outside", "slow"]
BreakerState = Literal["closed", "open", "probing"]
STATUSES: tuple[str, ...] = get_args(TaskStatus)
TERMINAL = ("completed", "failed", "canceled", "skipped")


class ReadModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class TaskInfo(ReadModel):
    id: int
    pipeline: str = Field(examples=["missions"])
    status: TaskStatus
    key: str | None
    batch_id: int | None
    priority: int
    args: Any = Field(description="Its arguments; fields with secret names are hidden.")
    result: Any
    attempt: int
    tries: int = Field(description="Attempts that failed by the task's own fault.")
    crashes: int = Field(description="Attempts that died with their runner.")
    max_attempts: int | None
    lane: str | None = Field(description="What it shares limits with.", examples=["shop.example"])
    run_at: datetime
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    claimed_at: datetime | None
    heartbeat_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    checkpoint: str | None
    progress: float | None
    error_code: str | None
    error_message: str | None
    runner_id: int | None
    runner: str | None
    lease_until: datetime | None


class SelectionPreview(ReadModel):
    """What an action on the tasks that match a filter would do."""

    action: str
    total: int
    by_status: dict[str, int]
    would_change: int
    sample: list[int] = Field(description="The newest of them.")


class TaskFailed(RegenteError):
    """Raised by `Regente.wait`: the task is a dead letter, or was canceled. `task` shows it."""

    code = "TASK_FAILED"

    def __init__(self, message: str, task: TaskInfo) -> None:
        super().__init__(message)
        self.task = task


class Stall(ReadModel):
    """Why and where a batch stalled, as it was found then."""

    at: datetime
    reason: Literal["no_runner", "no_progress"]
    pipeline: str | None
    task_id: int | None = Field(description="The task that it waited for.")
    key: str | None
    status: TaskStatus | None
    attempt: int | None
    step: str | None = Field(description="The last step that the task had finished.")
    since: datetime | None = Field(description="The task's last heartbeat.")
    runner: str | None
    runner_alive: bool | None
    error_code: str | None = Field(description="The task's last failure.")
    error_message: str | None
    error_at: datetime | None


class BatchInfo(ReadModel):
    """A batch of tasks, whose counts add up to `total`."""

    id: int
    name: str
    status: BatchStatus
    total: int
    draft: int
    queued: int
    running: int
    completed: int
    failed: int
    canceled: int
    skipped: int
    resumes: int
    max_resumes: int
    stall_after_seconds: float
    created_at: datetime
    progress_at: datetime
    finished_at: datetime | None
    eta_seconds: float | None
    stall: Stall | None = Field(description="Its last stall, also after it went on or failed.")
    pipeline: str | None = Field(
        description="Pipeline of its tasks; one of them, if they have several.", examples=["quotes"]
    )
    on_complete: str | None = Field(description="Pipeline of the task that its closing queues.")
    parent_id: int | None = Field(description="Task whose step spawned its tasks.")
    parent_step: str | None
    details: Any

    @property
    def balanced(self) -> bool:
        """True when the counts add up to `total`."""
        counted: int = sum(getattr(self, status) for status in STATUSES)
        return self.total == counted


class RunnerInfo(ReadModel):
    id: int
    name: str
    host: str
    pid: int
    version: str = Field(description="Of Regente.")
    versions: dict[str, str] = Field(
        description="Of the code of its pipelines, where they have one.",
        examples=[{"prices": "1.4.0"}],
    )
    status: RunnerStatus
    alive: bool = Field(description="Whether its lease is valid.")
    pipelines: list[str]
    concurrency: int
    running: int
    stuck: int
    started_at: datetime
    heartbeat_at: datetime
    lease_until: datetime
    stopped_at: datetime | None
    claimed: int
    completed: int
    failed: int
    retried: int
    recovered: int
    handed_back: int
    busy_seconds: float = Field(exclude=True)
    average_seconds: float | None


class WorkerMetrics(ReadModel):
    """A runner's metrics by the names of the original specification (`getWorkerMetrics`)."""

    workerId: str  # noqa: N815 - the specification's names
    jobsClaimed: int  # noqa: N815
    jobsCompleted: int  # noqa: N815
    jobsFailed: int  # noqa: N815
    jobsRetried: int  # noqa: N815
    jobsRecovered: int  # noqa: N815
    avgJobDurationMs: float | None  # noqa: N815
    stuckJobCount: int = Field(description="Stuck now.")  # noqa: N815

    @classmethod
    def of(cls, runner: RunnerInfo) -> WorkerMetrics:
        mean = runner.average_seconds
        return cls(
            workerId=runner.name,
            jobsClaimed=runner.claimed,
            jobsCompleted=runner.completed,
            jobsFailed=runner.failed,
            jobsRetried=runner.retried,
            jobsRecovered=runner.recovered,
            avgJobDurationMs=None if mean is None else round(mean * 1000, 3),
            stuckJobCount=runner.stuck,
        )


class Event(ReadModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "position": "812-90210",
                "at": "2025-01-15T10:00:00Z",
                "event": "task_completed",
                "task_id": 42,
                "batch_id": None,
                "runner_id": 3,
                "attempt": 1,
                "details": {"duration_ms": 1200},
            }
        }
    )

    id: int = Field(exclude=True)
    txid: str = Field(exclude=True)
    position: str = Field(description="Its position in the feed.")
    at: datetime
    event: str
    task_id: int | None
    batch_id: int | None
    runner_id: int | None
    attempt: int | None
    details: Any


class Attempt(ReadModel):
    """One attempt at a task, and the code that ran it."""

    attempt: int
    claimed_at: datetime
    runner_id: int
    runner: str | None
    version: str | None = Field(description="Of the pipeline's code in that runner.")


class ReplayCheck(ReadModel):
    """What other code would make of a task's recorded steps."""

    task_id: int
    pipeline: str
    verdict: ReplayVerdict
    message: str
    stopped_at: str | None
    """The first step that is not recorded; None when it came to its end."""
    unasked: list[str]
    """Recorded steps that it did not ask for before."""


class LaneInfo(ReadModel):
    """A lane: what shares a limit. Its limits are its own ones, or its pipeline's."""

    name: str = Field(examples=["shop.example"])
    pipeline: str = Field(description="The pipeline that opened it, whose limits are its defaults.")
    concurrency: int | None = Field(description="How many of its tasks run at once.")
    rate: float | None = Field(description="How many of its tasks start in a second, at most.")
    rate_now: float | None = Field(
        description="The present rate: lower while tasks are blocked or throttled."
    )
    burst: int | None = Field(description="How many may start at once after a pause.")
    min_rate: float | None
    weight: int
    breaker: int | None = Field(description="The failures in a row that open the breaker.")
    own: list[str] = Field(description="The limits that were set for this lane.")
    status: LaneStatus
    parked_until: datetime | None = Field(
        description="Null also when it is parked until it is opened."
    )
    parked_because: str | None
    breaker_state: BreakerState
    failures: int = Field(description="Failures in a row.")
    running: int = Field(description="Its tasks and calls that run.")
    queued: int = Field(description="At most 10,001 are counted.")
    waiting: int = Field(description="Calls of running tasks that wait for a place.")
    per_second: float | None = Field(description="Starts per second, over the last minute or so.")


class Decision(ReadModel):
    """A call that may have taken effect and whose result is not known: a person decides."""

    task_id: int
    pipeline: str
    batch_id: int | None
    step: str
    item: int | None = Field(description="The element of a durable loop; null for a plain step.")
    attempt: int = Field(description="The attempt that called.")
    called_at: datetime
    asked_at: datetime


class SignalWaitInfo(ReadModel):
    """A task that waits for a signal."""

    task_id: int
    pipeline: str
    batch_id: int | None
    step: str
    signal: str
    since: datetime
    until: datetime | None = Field(description="When the wait ends; null for no limit.")
    refused: str | None = Field(description="Why the last signal of this name was refused.")


class Child(ReadModel):
    """How a task that a step spawned has ended."""

    id: int
    status: TaskStatus
    result: Any = None
    error_code: str | None = None
    error_message: str | None = None

    @property
    def ok(self) -> bool:
        """True when it succeeded, or had nothing to do."""
        return self.status in ("completed", "skipped")

    def __str__(self) -> str:
        why = f": {self.error_code}: {self.error_message}" if self.error_code else ""
        return f"task {self.id} is {self.status}{why}"


class ScheduleRun(ReadModel):
    """What became of a time of a schedule."""

    due_at: datetime
    state: ScheduleRunState = Field(
        description="`queued`: it has a task. `waiting`: for the end of the previous run. "
        "`skipped`: the previous run was unfinished. `missed`: no runner saw it in time."
    )
    times: int = Field(description="How many times in a row were missed, from `due_at` on.")
    at: datetime = Field(description="When it was dealt with.")
    task_id: int | None
    task_status: TaskStatus | None
    error_code: str | None


class Resumed(ReadModel):
    resumed: bool = Field(
        description="False if another call resumed it, or if there was nothing to resume."
    )
    reason: str
    released: int
    resumes: int


class Why(ReadModel):
    """Why a task is not running, or what it does."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "example": {
                "code": "NO_WORKER",
                "summary": "No worker is active: add or activate one.",
                "details": {"ahead": 0},
            }
        },
    )

    code: str
    summary: str
    details: dict[str, Any]

    def __str__(self) -> str:
        return self.summary


def as_dict(value: Any) -> dict[str, Any]:
    """All fields of a read model or a dataclass, those that the API does not show included."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return asdict(value)
