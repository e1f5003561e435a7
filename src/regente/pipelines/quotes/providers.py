"""The protocols of a quote's providers; each has an HTTP implementation in its own file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from regente.pipelines.quotes.models import Analysed, Analysis, Evidence, Found, Product


class Analyst(Protocol):
    """Analyses a description. Each call is paid for."""

    async def analyse(self, description: str, key: str) -> Analysed:
        """What the described item is. `key` is an idempotency key."""


class Shopping(Protocol):
    """Searches shops. Each call is paid for."""

    async def search(self, query: str, key: str) -> Found:
        """The offered products. `key` is an idempotency key."""


class VehicleTable(Protocol):
    async def price(self, vehicle: Analysis) -> Evidence:
        """The vehicle's price in the table; raises `Fatal` if the table does not have it."""


class ProductPages(Protocol):
    async def look(self, product: Product, *, patient: bool) -> Evidence:
        """The price on the product's page. A page that does not answer raises `Transient` while
        `patient`, else it is evidence without a price."""


@dataclass(frozen=True, slots=True)
class Providers:
    analyst: Analyst
    shopping: Shopping
    vehicles: VehicleTable
    product_pages: ProductPages


def idempotent(key: str) -> dict[str, str]:
    """The header with which a provider treats repeated calls as one."""
    return {"idempotency-key": key}
