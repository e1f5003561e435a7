"""Whom a quote asks, as small protocols; each has an implementation over real HTTP in a file of its
own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from regente.pipelines.quotes.models import Analysed, Analysis, Evidence, Found, Product


class Analyst(Protocol):
    """Paid for by the call."""

    async def analyse(self, description: str, key: str) -> Analysed:
        """What the described thing is. The same `key` is the same order, however often
        it is sent."""


class Shopping(Protocol):
    """Paid for by the call."""

    async def search(self, query: str, key: str) -> Found:
        """Who offers it. The same `key` is the same order, however often it is sent."""


class VehicleTable(Protocol):
    async def price(self, vehicle: Analysis) -> Evidence:
        """What the table says of it; `Fatal` when it knows no such vehicle."""


class ProductPages(Protocol):
    async def look(self, product: Product, *, patient: bool) -> Evidence:
        """What the product's own page says. While `patient`, a page that does not answer is
        `Transient`, else evidence."""


@dataclass(frozen=True, slots=True)
class Providers:
    analyst: Analyst
    shopping: Shopping
    vehicles: VehicleTable
    product_pages: ProductPages


def idempotent(key: str) -> dict[str, str]:
    """For a provider that honours it, a call that is repeated because its answer got lost is one
    call."""
    return {"idempotency-key": key}
