"""The client's read models of tasks, batches, runners and events."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

STATUSES = ("draft", "queued", "running", "completed", "failed", "canceled", "skipped")
TERMINAL = ("completed", "failed", "canceled", "skipped")


@dataclass(frozen=True, slots=True)
class TaskInfo:
    id: int
    pipeline: str
    status: str
    key: str | None
    batch_id: int | None
    priority: int
    args: dict[str, Any]
    result: Any
    attempt: int
    tries: int
    crashes: int
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


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """A batch with its ledger: `total` tasks were accepted; the counts by state add up to it."""

    id: int
    name: str
    status: str
    total: int
    resumes: int
    max_resumes: int
    stall_after_seconds: float
    created_at: datetime
    progress_at: datetime
    finished_at: datetime | None
    details: dict[str, Any]
    draft: int
    queued: int
    running: int
    completed: int
    failed: int
    canceled: int
    skipped: int
    eta_seconds: float | None
    pipeline: str | None
    """Of its tasks, or of one of them where they have several."""

    @property
    def balanced(self) -> bool:
        """True when the counts add up to `total`."""
        counted = (
            self.draft
            + self.queued
            + self.running
            + self.completed
            + self.failed
            + self.canceled
            + self.skipped
        )
        return self.total == counted


@dataclass(frozen=True, slots=True)
class RunnerInfo:
    id: int
    name: str
    host: str
    pid: int
    version: str
    status: str
    pipelines: list[str]
    concurrency: int
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
    busy_seconds: float
    alive: bool
    running: int
    stuck: int

    @property
    def average_seconds(self) -> float | None:
        ended = self.completed + self.failed + self.retried
        return self.busy_seconds / ended if ended else None


@dataclass(frozen=True, slots=True)
class Event:
    id: int
    txid: str
    at: datetime
    task_id: int | None
    batch_id: int | None
    runner_id: int | None
    attempt: int | None
    event: str
    details: dict[str, Any] | None

    @property
    def position(self) -> str:
        """The feed's position after this event."""
        return f"{self.txid}-{self.id}"


@dataclass(frozen=True, slots=True)
class Resumed:
    """`resumed` is False when another caller was first or the batch was not stalled (`reason`)."""

    resumed: bool
    reason: str
    released: int = 0
    resumes: int = 0


def as_dict(value: Any) -> dict[str, Any]:
    return asdict(value)
