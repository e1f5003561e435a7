"""Wire models of tasks, batches, dead letters and runners."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from regente.api.limits import MAX_ID
from regente.api.models.basics import Named, PageQuery, Strict, TaskStatus, Word

BatchStatus = Literal["pending", "running", "stalled", "completed", "failed", "canceled"]


class Task(BaseModel):
    model_config = ConfigDict(from_attributes=True)

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


class TaskFilter(Strict):
    pipeline: Word | None = None
    statuses: list[TaskStatus] | None = Field(None, max_length=7)
    batch_id: int | None = Field(None, ge=1, le=MAX_ID)
    code: Word | None = Field(None, description="The task's error code.")


class TaskQuery(TaskFilter, PageQuery):
    pass


class TaskSelection(Named):
    filter: TaskFilter | None = None


class Step(BaseModel):
    name: str
    item: int = Field(description="The element of a durable loop; −1 for a plain step.")
    attempt: int
    duration_ms: float | None
    finished_at: datetime
    output: Any


class Event(BaseModel):
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

    position: str = Field(description="Its position in the feed.")
    at: datetime
    event: str
    task_id: int | None
    batch_id: int | None
    runner_id: int | None
    attempt: int | None
    details: Any


class EventFilter(Strict):
    mission_id: int | None = Field(
        None, ge=1, le=MAX_ID, description="Includes the events of its sessions."
    )
    task_id: int | None = Field(None, ge=1, le=MAX_ID)
    batch_id: int | None = Field(None, ge=1, le=MAX_ID)
    types: list[Word] | None = Field(
        None, max_length=50, examples=[["scrape_failed", "operator_action"]]
    )
    worker_id: Word | None = None
    since: datetime | None = None
    until: datetime | None = None


class EventQuery(EventFilter, PageQuery):
    pass


class Failure(BaseModel):
    """A dead letter: a task that failed for good, until it is retried or discarded."""

    task_id: int
    pipeline: str
    batch_id: int | None
    key: str | None
    code: str | None = Field(examples=["ERROR203"])
    message: str | None
    class_: str | None = Field(
        alias="class", description="transient, blocked, throttled, fatal, timeout, stall or crash."
    )
    fingerprint: str | None = Field(description="Equal for similar failures.")
    step: str | None
    tries: int
    crashes: int
    attempt: int
    failed_at: datetime | None
    failure_id: int | None
    snapshots: int


class FailureFilter(Strict):
    pipeline: Word | None = None
    code: Word | None = None
    fingerprint: Word | None = None
    batch_id: int | None = Field(None, ge=1, le=MAX_ID)


class FailureQuery(FailureFilter, PageQuery):
    pass


class FailureSelection(Named):
    filter: FailureFilter | None = None


class DiscardSelection(FailureSelection):
    reason: str = Field(
        min_length=3, max_length=500, description="Why they are discarded; stored in the audit log."
    )


class FailureGroup(BaseModel):
    pipeline: str
    code: str | None
    fingerprint: str | None
    class_: str | None = Field(alias="class")
    message: str | None = Field(description="Message of the newest failure.")
    step: str | None
    tasks: int
    first_at: datetime | None
    last_at: datetime | None
    newest_task_id: int


class Snapshot(BaseModel):
    name: str = Field(examples=["page.html"])
    content_type: str
    bytes: int
    truncated: bool


class FailedAttempt(BaseModel):
    id: int
    attempt: int
    at: datetime
    class_: str = Field(alias="class")
    code: str
    message: str
    fingerprint: str
    step: str | None
    stack: str | None
    details: Any
    snapshots: list[Snapshot]


class FailureDetail(BaseModel):
    task: Task
    attempts: list[FailedAttempt] = Field(description="Newest first.")


class Batch(BaseModel):
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
    pipeline: str | None = Field(
        description="Pipeline of its tasks; one of them, if they have several.", examples=["quotes"]
    )
    details: Any


class BatchQuery(PageQuery):
    statuses: list[BatchStatus] | None = Field(None, max_length=6)


class ErrorCount(BaseModel):
    code: str | None
    tasks: int


class BatchDetail(Batch):
    errors: list[ErrorCount] = Field(description="Its dead letters by code.")
    last_task_id: int | None
    last_key: str | None = Field(description="Key of the task that ended last.")
    route: str | None = Field(description="`route` of its details, if given.")


class Resumed(BaseModel):
    resumed: bool = Field(
        description="False if another call resumed it, or if there was nothing to resume."
    )
    reason: str
    released: int
    resumes: int


class Reprocess(Strict):
    codes: list[Word] | None = Field(None, max_length=100)
    ids: list[int] | None = Field(None, max_length=10_000)


class Requeued(BaseModel):
    count: int
    ids: list[int]


class Canceled(BaseModel):
    canceled: int
    canceling: int = Field(description="Running tasks that were asked to stop.")


class Runner(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    name: str
    host: str
    pid: int
    version: str
    status: Literal["running", "draining", "stopped", "lost"]
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
    average_seconds: float | None
