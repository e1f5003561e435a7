"""What people see of quotes and lots: the original specification's fields, and what came out."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from regente.pipelines.quotes.checkpoints import Checkpoint
from regente.pipelines.quotes.models import Kind, Method

QuoteStatus = Literal["PENDING", "PROCESSING", "DONE", "ERROR", "CANCELLED"]
QUOTE_STATUSES: tuple[str, ...] = get_args(QuoteStatus)


class Quote(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "example": {
                "id": 42,
                "status": "PROCESSING",
                "description": "Cadeira de escritório ergonômica",
                "reference": "P-0042",
                "lot": "inventário 2026",
                "batch_id": 3,
                "kind": None,
                "value": None,
                "currency": None,
                "processing_checkpoint": "PRICE_EXTRACTION_PROGRESS",
                "progress_percentage": 70.0,
                "last_heartbeat": "2026-11-15T10:00:04Z",
                "worker_id": "host-1:4711",
                "attempt_number": 1,
                "created_at": "2026-11-15T10:00:00Z",
                "started_at": "2026-11-15T10:00:01Z",
                "completed_at": None,
                "error_code": None,
                "error_message": None,
            }
        },
    )

    id: int
    status: QuoteStatus
    description: str
    reference: str | None
    lot: str | None
    batch_id: int | None
    kind: Kind | None
    value: Decimal | None = Field(description="The median of the prices that were kept.")
    currency: str | None
    processing_checkpoint: str | None = Field(examples=[*Checkpoint])
    progress_percentage: float
    last_heartbeat: datetime | None
    worker_id: str | None = Field(description="Who is processing it.")
    attempt_number: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error_code: str | None
    error_message: str | None


class QuoteSource(BaseModel):
    """One place that was looked at, with or without a price."""

    position: int
    source: str
    title: str
    url: str | None
    price: Decimal | None
    currency: str | None
    method: Method | None = Field(description="Where the price was read: the surest first.")
    excerpt: str | None = Field(description="The place where the price stood, as it stood there.")
    page_sha256: str | None
    screenshot: bool = Field(description="Whether there is an image of the page.")
    fetched_at: datetime
    error: str | None
    outlier: bool = Field(description="Too far from the others: left out of the statistics.")
    details: dict[str, Any]


class PassedCheckpoint(BaseModel):
    checkpoint: str
    item: int | None = Field(
        description="Which product, of the checkpoints that come once for each."
    )
    attempt: int
    at: datetime
    duration_ms: float | None


class QuoteDetail(Quote):
    search_query: str | None
    statistics: dict[str, Any] | None
    analysis: dict[str, Any] | None
    sources: list[QuoteSource]
    resume_data: dict[str, Any] = Field(
        description="What the next attempt would not do, or pay for, again."
    )
    checkpoints: list[PassedCheckpoint]


class QuoteLot(BaseModel):
    id: int
    name: str
    status: str = Field(examples=["running"])
    total: int
    quoted: int = Field(description="How many have a price.")
    value: Decimal | None = Field(description="What they come to.")
    currency: str | None
    created_at: datetime
    finished_at: datetime | None
