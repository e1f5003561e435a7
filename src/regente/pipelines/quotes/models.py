"""What the steps of a quote hand on to each other. Prices are decimals, and texts in JSON."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

MAX_DESCRIPTION_CHARACTERS = 4_000
MAX_EXCERPT_CHARACTERS = 600
MAX_PRICE = Decimal("1e11")

Description = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True,
        min_length=2,
        max_length=MAX_DESCRIPTION_CHARACTERS,
        pattern=r"^[^\x00]*$",
    ),
]
Reference = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=100, pattern=r"^[^\x00]*$"),
]


class Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class QuoteArgs(Value):
    """What is to be priced. A `reference` is the caller's own number for it: one
    lot has it once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: Description
    reference: Reference | None = None


class Kind(StrEnum):
    VEHICLE = "vehicle"
    PRODUCT = "product"


class VehicleType(StrEnum):
    """As FIPE divides them."""

    CAR = "cars"
    MOTORCYCLE = "motorcycles"
    TRUCK = "trucks"


class Analysis(Value):
    """What the thing is: how to search for it, and for a vehicle what FIPE needs to know."""

    kind: Kind
    search_query: str = Field(min_length=1, max_length=300)
    brand: str | None = Field(None, max_length=200)
    model: str | None = Field(None, max_length=200)
    model_year: int | None = Field(None, ge=1900, le=2200)
    fuel: str | None = Field(None, max_length=50)
    vehicle_type: VehicleType = VehicleType.CAR

    @model_validator(mode="after")
    def _vehicle_is_named(self) -> Analysis:
        if self.kind is Kind.VEHICLE and not (self.brand and self.model):
            raise ValueError("a vehicle has a brand and a model")
        return self


class Analysed(Value):
    """The paid answer, kept: `claude_payload_json` of the original specification."""

    analysis: Analysis
    provider: str
    model: str
    message_id: str | None = None
    usage: dict[str, Any] = Field(default_factory=dict)


class Product(Value):
    """One hit of the shopping search."""

    position: int
    title: str
    source: str
    url: str | None = None
    listed_price: Decimal | None = None
    product_id: str | None = None


class Found(Value):
    """The paid answer, kept: `google_shopping_response_json` of the original specification."""

    query: str
    provider: str
    products: list[Product]


class Method(StrEnum):
    """How a price was read, the surest first."""

    FIPE = "fipe"
    JSON_LD = "json_ld"
    META = "meta"
    MICRODATA = "microdata"
    TEXT = "text"
    LISTING = "listing"


class Evidence(Value):
    """One source: what was seen there, and the price if there was one."""

    position: int
    source: str
    title: str
    url: str | None
    price: Decimal | None = None
    currency: str | None = None
    method: Method | None = None
    excerpt: str | None = Field(
        None, description="The place where the price stood, as it stood there."
    )
    page_sha256: str | None = None
    fetched_at: datetime
    error: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class Statistics(Value):
    """Of the prices that were kept; `value` is what the quote says."""

    value: Decimal
    mean: Decimal
    median: Decimal
    minimum: Decimal
    maximum: Decimal
    deviation: Decimal
    variation: float = Field(description="The deviation as a share of the mean.")
    prices: int = Field(description="How many were found.")
    kept: int = Field(description="How many of them the statistics are about.")
    outliers: int


class Appraisal(Value):
    """`statistics` is None when no source had a price."""

    statistics: Statistics | None
    outliers: list[int] = Field(description="Positions of the sources whose price is too far off.")


class QuoteResult(Value):
    kind: Kind
    value: Decimal
    currency: str
    prices: int
    outliers: int
    sources: int
