"""Wire models of tasks, batches and dead letters: filters, requests, details."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, Field, field_validator

from regente.api.limits import MAX_ID
from regente.api.models.basics import Named, PageQuery, Strict, Word
from regente.engine.models import BatchInfo, BatchStatus, TaskInfo, TaskStatus


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


class Resolution(Strict):
    """A decision on a call with an unknown outcome: `retry`, or its `result`."""

    step: Word = Field(examples=["PAY"])
    item: int | None = Field(None, ge=0, le=MAX_ID, description="The element of a durable loop.")
    retry: bool = Field(False, description="Make the call again.")
    result: Any = Field(None, description="What the step's function would have returned.")


class TaskChanges(Strict):
    """What of waiting tasks is to be changed; a field that is not given stays."""

    priority: int | None = Field(None, ge=-32768, le=32767)
    run_at: AwareDatetime | None = Field(None, description="Null: now.")
    lane: Word | None = Field(None, description="What it shares limits with. Null: nothing.")
    max_attempts: int | None = Field(None, ge=1, le=1000, description="Null: the pipeline's.")

    @property
    def given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}

    @field_validator("priority")
    @classmethod
    def _is_a_number(cls, value: Any) -> Any:
        return _not_null(value)


class TaskChange(TaskChanges):
    """What of a waiting task is to be changed; a field that is not given stays."""

    args: dict[str, Any] | None = Field(
        None, description="All of its arguments; before its first attempt."
    )

    @field_validator("args")
    @classmethod
    def _is_an_object(cls, value: Any) -> Any:
        return _not_null(value)


def _not_null(value: Any) -> Any:
    if value is None:
        raise ValueError("cannot be null")
    return value


class ChangedSelection(TaskSelection):
    changes: TaskChanges = Field(examples=[{"priority": 5}])


class Signal(Strict):
    """A signal for a task, which receives it once."""

    name: Word = Field(examples=["approval"])
    payload: Any = Field(None, examples=[{"approved": True}])
    key: Word | None = Field(None, description="Makes a repeated request the same signal.")


class SignalSent(BaseModel):
    id: int
    task_id: int
    name: str


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
    task: TaskInfo
    attempts: list[FailedAttempt] = Field(description="Newest first.")


class BatchQuery(PageQuery):
    statuses: list[BatchStatus] | None = Field(None, max_length=6)


class ErrorCount(BaseModel):
    code: str | None
    tasks: int


class BatchDetail(BatchInfo):
    errors: list[ErrorCount] = Field(description="Its dead letters by code.")
    last_task_id: int | None
    last_key: str | None = Field(description="Key of the task that ended last.")
    route: str | None = Field(description="`route` of its details, if given.")


class Reprocess(Strict):
    codes: list[Word] | None = Field(None, max_length=100)
    ids: list[int] | None = Field(None, max_length=10_000, fail_fast=True)


class Requeued(BaseModel):
    count: int
    ids: list[int]


class Canceled(BaseModel):
    canceled: int
    canceling: int = Field(description="Running tasks that were asked to stop.")
