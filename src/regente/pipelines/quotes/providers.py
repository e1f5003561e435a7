"""The protocols of a quote's providers; each has an HTTP implementation in its own file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from regente.engine.intents import OnUnknown
from regente.engine.lanes import Lane
from regente.http_client.lanes import InLane
from regente.pipelines.quotes.models import Analysed, Analysis, Evidence, Found, Product


class CalledProvider(Protocol):
    """Each call holds a place in the provider's lane."""

    @property
    def lane(self) -> Lane: ...


class PaidProvider(CalledProvider, Protocol):
    """Each call is paid for."""

    @property
    def honours_keys(self) -> bool:
        """Whether a call that is repeated with its idempotency key is not charged again."""


class Analyst(PaidProvider, Protocol):
    """Analyses a description."""

    async def analyse(self, description: str, key: str) -> Analysed:
        """Return what the described item is. `key` is an idempotency key."""


class Shopping(PaidProvider, Protocol):
    """Searches shops."""

    async def search(self, query: str, key: str) -> Found:
        """The offered products. `key` is an idempotency key."""

    async def with_page(self, product: Product, key: str, *, patient: bool) -> Product:
        """The product with its shop's own page, if the provider finds one. Each call is paid for;
        one that fails for a while raises while `patient`."""


class VehicleTable(CalledProvider, Protocol):
    async def price(self, vehicle: Analysis) -> Evidence:
        """The vehicle's price in the table; raises `Fatal` if the table does not have it."""


class ProductPages(Protocol):
    async def look(self, product: Product, in_lane: InLane, *, patient: bool) -> Evidence:
        """The price on the product's page, which is fetched in its shop's lane. A page that does
        not answer raises `Transient` while `patient`, else it is evidence without a price."""


@dataclass(frozen=True, slots=True)
class Providers:
    analyst: Analyst
    shopping: Shopping
    vehicles: VehicleTable
    product_pages: ProductPages


def on_unknown(provider: PaidProvider, given: OnUnknown | None) -> OnUnknown:
    """How a call of unknown outcome is handled: as the operator has chosen, or by default."""
    return given or ("retry" if provider.honours_keys else "hold")


def idempotent(key: str) -> dict[str, str]:
    """The header with which a provider treats repeated calls as one."""
    return {"idempotency-key": key}
