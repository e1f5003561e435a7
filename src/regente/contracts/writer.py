"""The Writer API (specification, 9.2)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, Field

MAX_COUNT = 2**31 - 1


class WriterStatus(StrEnum):
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    PARTIAL = "partial"


class Target(BaseModel):
    table: str = Field(min_length=1, max_length=63)
    schema_: str = Field("public", alias="schema", min_length=1, max_length=63)
    operation: Literal["upsert", "insert"] = "upsert"
    conflict_key: str = Field("id", min_length=1, max_length=63)

    model_config = {"populate_by_name": True}


class Source(BaseModel):
    type: Literal["url"] = "url"
    url: str = Field(min_length=1, max_length=4000)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    json_path: str = Field("ads", max_length=200)


class ProcessRequest(BaseModel):
    job_id: str | None = Field(
        None, min_length=1, max_length=100, description="the same id twice is one job"
    )
    config: Target
    source: Source


class ProcessAccepted(BaseModel):
    job_id: str = Field(min_length=1, max_length=100)
    status: WriterStatus = WriterStatus.PROCESSING
    created_at: datetime | None = None


class Progress(BaseModel):
    total: int | None = Field(None, ge=0, le=MAX_COUNT)
    processed: int = Field(0, ge=0, le=MAX_COUNT)
    success_count: int = Field(0, ge=0, le=MAX_COUNT)
    failed_count: int = Field(0, ge=0, le=MAX_COUNT)


class FailedItem(BaseModel):
    index: int = Field(ge=0, le=2**63 - 1)
    data: Any = None
    error: str


class WriterJob(BaseModel):
    job_id: str
    status: WriterStatus
    progress: Progress = Progress()
    failed_items: list[FailedItem] = Field(default_factory=list, fail_fast=True)
    error: str | None = Field(None, description="*ours*: why the whole job failed")
    error_code: (
        Literal["ERROR300", "ERROR301", "ERROR302", "ERROR303", "ERROR400", "ERROR401"] | None
    ) = Field(None, description="*ours*: the code of that failure")
    started_at: datetime | None = None
    completed_at: datetime | None = None


class Health(BaseModel):
    status: str
