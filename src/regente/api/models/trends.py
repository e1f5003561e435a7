"""Wire models of the charts: counts over time."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class Depth(BaseModel):
    at: datetime
    waiting: int = Field(description="Queued tasks at the end of the bucket, due or not.")


class RetryCause(BaseModel):
    cause: str = Field(examples=["ERROR200"])
    count: int
    last_at: datetime


class SessionBucket(BaseModel):
    at: datetime
    good: int
    failed: int


class Trends(BaseModel):
    window_seconds: int
    bucket_seconds: int
    depth: list[Depth]
    retries: list[RetryCause] = Field(description="Retried attempts by cause, most frequent first.")
    sessions: list[SessionBucket] = Field(
        description="Sessions that became ready, and sessions that failed."
    )
