"""Wire models of quotes, with the original specification's field names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regente.api.models.basics import PageQuery, SomeId, Strict, Word
from regente.pipelines.quotes.models import Description, Reference
from regente.pipelines.quotes.read_models import QuoteLot, QuoteStatus

MAX_QUOTES = 10_000


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
    quotes: list[NewQuote] | None = Field(None, min_length=1, max_length=MAX_QUOTES, fail_fast=True)
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


class QuoteLotDetail(QuoteLot):
    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    eta_seconds: float | None
