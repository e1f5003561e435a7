"""The models that a quote's steps exchange. Prices are decimals, and strings in JSON."""

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
    """The item to be priced. `reference` is the client's number for it, unique in a lot."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: Description
    reference: Reference | None = None


class Kind(StrEnum):
    VEHICLE = "vehicle"
    PRODUCT = "product"


class VehicleType(StrEnum):
    """The vehicle types of FIPE."""

    CAR = "cars"
    MOTORCYCLE = "motorcycles"
    TRUCK = "trucks"


class Analysis(Value):
    """What the item is: its search query, and for a vehicle the fields of FIPE."""

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
            raise ValueError("a vehicle needs a brand and a model")
        return self


class Analysed(Value):
    """The stored, paid answer: `claude_payload_json` of the original specification."""

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
    url: str | None = Field(None, description="The shop's own page.")
    listed_price: Decimal | None = None
    listed_currency: str | None = Field(None, description="None: the search's own.")
    listing_url: str | None = Field(None, description="The search engine's page of it.")
    lookup_id: str | None = Field(None, description="With it the shop's page is looked up.")
    product_id: str | None = None


class Found(Value):
    """The stored, paid answer: `google_shopping_response_json` of the original specification."""

    query: str
    provider: str
    products: list[Product]


class Method(StrEnum):
    """How a price was extracted, the most reliable first."""

    FIPE = "fipe"
    JSON_LD = "json_ld"
    META = "meta"
    MICRODATA = "microdata"
    TEXT = "text"
    LISTING = "listing"


class Evidence(Value):
    """A source that was read, with its price if it has one."""

    position: int
    source: str
    title: str
    url: str | None
    price: Decimal | None = None
    currency: str | None = None
    method: Method | None = None
    excerpt: str | None = Field(None, description="The text with the price, as on the page.")
    page_sha256: str | None = None
    screenshot: bytes | None = Field(
        None, exclude=True, repr=False, description="PNG; stored apart from the step's result."
    )
    fetched_at: datetime
    error: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class Statistics(Value):
    """Statistics of the prices without outliers; `value` is the quote's price."""

    value: Decimal
    mean: Decimal
    median: Decimal
    minimum: Decimal
    maximum: Decimal
    deviation: Decimal
    variation: float = Field(description="The deviation as a share of the mean.")
    prices: int = Field(description="Prices found.")
    kept: int = Field(description="Prices without outliers.")
    outliers: int


class Appraisal(Value):
    """The statistics, None without any price, and the outliers."""

    statistics: Statistics | None
    outliers: list[int] = Field(description="Positions of the sources with outlying prices.")


class QuoteResult(Value):
    kind: Kind
    value: Decimal
    currency: str
    prices: int
    outliers: int
    sources: int
