"""Wire models of the overview."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class Bucket(BaseModel):
    at: datetime
    outcome: str = Field(examples=["completed"])
    count: int


class Queue(BaseModel):
    pipeline: str
    queued: int
    due: int = Field(description="Queued tasks that only wait for a free runner.")
    running: int
    stuck: int = Field(description="Running without a heartbeat for 10 minutes.")
    oldest_waiting_seconds: float | None


class Phase(BaseModel):
    phase: str = Field(description="queue, session, scrape, writer or total.")
    count: int
    p50_ms: float | None
    p95_ms: float | None


class ErrorGroup(BaseModel):
    pipeline: str
    code: str | None
    tasks: int
    last_at: datetime | None


class Health(BaseModel):
    workers: dict[str, int] = Field(description="Active workers by state.")
    inactive_workers: int
    active_proxies: int
    proxies_in_use: int
    failing_proxies: int = Field(description="Active proxies with failures.")
    inactive_proxies: int
    active_writers: int
    failing_writers: int = Field(description="Active writers that failed last.")
    runners: int
    lost_runners: int = Field(description="In the last hour.")
    breaker: bool = Field(description="Whether most proxies fail: the target may be down.")


class Attention(BaseModel):
    """A problem that an operator should look at."""

    code: str = Field(examples=["DEAD_LETTERS"])
    count: int
    message: str


class Stats(BaseModel):
    now: datetime
    window_seconds: int
    bucket_seconds: int
    attention: list[Attention] = Field(description="Problems; empty if there are none.")
    throughput: list[Bucket]
    queues: list[Queue]
    phases: list[Phase]
    errors: list[ErrorGroup]
    health: Health
    stalled_batches: int
    dead_letters: int
