"""The Worker API (specification, 9.1). Fields marked *ours* are optional extensions."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

API_KEY_HEADER = "x-api-key"
IDEMPOTENCY_HEADER = "idempotency-key"
"""*Ours*, on `POST /scrape`: the same key twice is one job. A worker may ignore it. One that obeys
it has `job_key` in every answer of `GET /session/status`."""
WITHOUT_DATA = {"prefer": "return=minimal"}
"""*Ours*, on `GET /scrape/{job_id}` (RFC 7240): the caller does not need `data`. A worker may
ignore it."""


class SessionStatus(StrEnum):
    INITIALIZING = "initializing"
    CONNECTING = "connecting"
    AUTHENTICATING = "authenticating"
    WARMING_UP = "warming_up"
    READY = "ready"
    SCRAPING = "scraping"
    STUCK = "stuck"
    DISCONNECTED = "disconnected"
    TERMINATED = "terminated"


class ScrapeStatus(StrEnum):
    PENDING = "pending"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    EMPTY = "empty"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PAUSED = "paused"


class Cause(StrEnum):
    """*Ours*: the party at fault."""

    PROXY = "proxy"
    """The proxy: 407, 451, refused, reset on connect."""
    THROTTLED = "throttled"
    """The target answered 429."""
    BLOCKED = "blocked"
    """The target refuses this session (403, a challenge)."""
    LAYOUT = "layout"
    """The target's pages have an unknown layout."""
    TARGET = "target"
    """The target is down (5xx, timeouts)."""
    STORAGE = "storage"
    """The result could not be stored."""
    WORKER = "worker"


class Problem(BaseModel):
    """*Ours*: why a session or a job went wrong."""

    cause: Cause
    message: str = Field(max_length=2000)
    http_status: int | None = None
    retry_after: float | None = Field(
        None, ge=0, description="seconds, when the cause is `throttled`"
    )


class ProxyAddress(BaseModel):
    model_config = ConfigDict(extra="forbid")

    server: str = Field(
        min_length=1, max_length=300, description="host:port, host alone, or with a scheme"
    )
    username: str | None = None
    password: str | None = Field(None, repr=False)


class SessionRequest(BaseModel):
    force_refresh: bool = True
    proxy: ProxyAddress | None = None


class Session(BaseModel):
    status: SessionStatus
    problem: Problem | None = None
    job_id: str | None = Field(None, description="*ours*: the id of the running job")
    job_key: str | None = Field(None, description="*ours*: the idempotency key of the running job")


class DateRange(BaseModel):
    start: date
    end: date

    @model_validator(mode="after")
    def _in_order(self) -> DateRange:
        if self.end < self.start:
            raise ValueError(f"the range ends ({self.end}) before it starts ({self.start})")
        return self


class Filters(BaseModel):
    date_range: DateRange
    format: Literal["all", "video", "image"]
    sort_by: Literal["qtd_ads"] = "qtd_ads"
    languages: list[str] = Field(min_length=1, max_length=100)


class Options(BaseModel):
    max_ads: Literal["all"] | StrictInt = "all"
    batch_size: StrictInt = Field(150, ge=1, le=10_000)


class ScrapeRequest(BaseModel):
    filters: Filters
    options: Options = Options()


class ScrapeAccepted(BaseModel):
    job_id: str = Field(min_length=1, max_length=100)


class ScrapeJob(BaseModel):
    """`data` holds every ad once the job is completed, and is not read here."""

    status: ScrapeStatus
    ads_count: int | None = Field(None, ge=0, le=2**31 - 1)
    progress_pct: float | None = Field(None, ge=0, le=100, description="*ours*")
    problem: Problem | None = Field(None, description="*ours*")
