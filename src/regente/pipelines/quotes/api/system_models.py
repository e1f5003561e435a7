"""Wire models of the endpoints of the original specification, with its field names."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

QuoteState = Literal["PENDING", "PROCESSING", "STUCK", "DONE", "ERROR", "CANCELLED"]

QUOTE_STATES: dict[str, QuoteState] = {
    "pending": "PENDING",
    "running": "PROCESSING",
    "stalled": "STUCK",
    "completed": "DONE",
    "failed": "ERROR",
    "canceled": "CANCELLED",
}


class SystemHealth(BaseModel):
    status: Literal["healthy"] = "healthy"
    database: Literal["ok"] = "ok"
    timestamp: datetime


class ProcessingStats(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "total_processing": 150,
                "stuck_count": 3,
                "avg_processing_time_seconds": 45.32,
                "by_checkpoint": {
                    "PRICE_EXTRACTION_PROGRESS": 120,
                    "SHOPPING_SEARCH_DONE": 25,
                    "AI_ANALYSIS_DONE": 5,
                },
            }
        }
    )

    total_processing: int
    stuck_count: int
    by_checkpoint: dict[str, int]
    avg_processing_time_seconds: float


class StuckQuote(BaseModel):
    id: int
    pipeline: str
    status: Literal["PROCESSING"] = "PROCESSING"
    processing_checkpoint: str | None
    last_heartbeat: datetime | None
    worker_id: str | None = Field(description="The runner that processes it.")
    attempt_number: int
    started_at: datetime | None
    batch_id: int | None


class StuckQuotes(BaseModel):
    count: int
    quotes: list[StuckQuote]


class Recovered(BaseModel):
    recovered: int
    ids: list[int]


class CleanedUp(BaseModel):
    marked_as_error: int
    ids: list[int]


class BatchStatus(BaseModel):
    batch_id: int
    name: str
    status: QuoteState
    total: int
    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    progress_percentage: float
    last_heartbeat: datetime | None
    eta_seconds: float | None
    errors: dict[str, int]
