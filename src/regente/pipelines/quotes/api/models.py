"""Wire models of quotes, with the original specification's field names."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regente.api.models.basics import PageQuery, SomeId, Strict, Word
from regente.pipelines.quotes.checkpoints import Checkpoint
from regente.pipelines.quotes.models import Description, Kind, Method, Reference

MAX_QUOTES = 10_000
QuoteStatus = Literal["PENDING", "PROCESSING", "DONE", "ERROR", "CANCELLED"]


class NewQuote(Strict):
    description: Description = Field(examples=["Cadeira de escritório ergonômica preta"])
    reference: Reference | None = Field(
        None, description="Your own number for it: one lot has it once.", examples=["P-0042"]
    )


class NewQuotes(Strict):
    """Either one (`description`) or many (`quotes`)."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "quotes": [
                    {
                        "description": "Cadeira de escritório ergonômica preta",
                        "reference": "P-0042",
                    },
                    {"description": "Volkswagen Gol 1.0 Flex 2015"},
                ],
                "lot": "inventário 2026",
            }
        }
    )

    description: Description | None = None
    reference: Reference | None = None
    quotes: list[NewQuote] | None = Field(None, min_length=1, max_length=MAX_QUOTES)
    lot: Word | None = Field(None, description="The lot they belong to; a new name opens one.")

    @model_validator(mode="after")
    def _one_of_both(self) -> NewQuotes:
        if (self.description is None) == (self.quotes is None):
            raise ValueError("give either a description or quotes")
        if self.quotes is not None and self.reference is not None:
            raise ValueError("a reference belongs to a description")
        return self

    def each(self) -> list[NewQuote]:
        if self.description is not None:
            return [NewQuote(description=self.description, reference=self.reference)]
        return self.quotes or []


class SubmittedQuotes(BaseModel):
    count: int
    ids: list[int] = Field(description="In the order in which they were given.")
    batch_id: int | None = Field(description="The lot's.")
    lot: str | None


class QuoteQuery(PageQuery):
    status: list[QuoteStatus] | None = Field(None, max_length=5)
    lot_id: SomeId | None = None


class Quote(BaseModel):
    model_config = ConfigDict(
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
        }
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
    worker_id: str | None = Field(description="The runner that processes it.")
    attempt_number: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error_code: str | None
    error_message: str | None


class QuoteSource(BaseModel):
    """A source that was read, with or without a price."""

    position: int
    source: str
    title: str
    url: str | None
    price: Decimal | None
    currency: str | None
    method: Method | None = Field(description="Where the price was read: the surest first.")
    excerpt: str | None = Field(description="The place where the price stood, as it stood there.")
    page_sha256: str | None
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
    value: Decimal | None = Field(description="Sum of its quotes.")
    currency: str | None
    created_at: datetime
    finished_at: datetime | None


class QuoteLotDetail(QuoteLot):
    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    eta_seconds: float | None
