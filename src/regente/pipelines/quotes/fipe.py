"""The FIPE table by its public API, version 1 or 2 by the base URL: brand, model, year, price.

The calls are free, so they may be repeated.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import AliasChoices, BaseModel, Field, RootModel, SecretStr, field_validator

from regente.engine.errors import Fatal
from regente.engine.lanes import LaneLimits
from regente.engine.outcome import storable
from regente.http_client.client import HttpClient
from regente.http_client.lanes import lane_of
from regente.http_client.task_errors import as_task_errors
from regente.pipelines.quotes.fipe_lists import ListCache
from regente.pipelines.quotes.models import MAX_PRICE, Analysis, Evidence, Method, VehicleType
from regente.pipelines.quotes.price_extraction import price_in

PORTUGUESE = {
    VehicleType.CAR: "carros",
    VehicleType.MOTORCYCLE: "motos",
    VehicleType.TRUCK: "caminhoes",
}
NOT_FOUND = "FIPE_NOT_FOUND"
NEW_SECONDS = 60.0
MAX_YEAR_DIGITS = 6
_WORD = re.compile(r"[a-z]+|[0-9]+(?:\.[0-9]+)?")


class Entry(BaseModel):
    """A brand, a model or a year."""

    code: str = Field(validation_alias=AliasChoices("code", "codigo"))
    name: str = Field(validation_alias=AliasChoices("name", "nome"))

    @field_validator("code", "name", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return storable(str(value)) if isinstance(value, str | int) else value


class Entries(RootModel[Annotated[list[Entry], Field(fail_fast=True)]]):
    """The lists of version 2, and those of version 1 except for models."""


class Models(BaseModel):
    """The list of models in version 1."""

    modelos: list[Entry] = Field(fail_fast=True)


class Priced(BaseModel):
    """The price in version 2, with its field names."""

    price: str | None = None
    brand: str | None = None
    model: str | None = None
    modelYear: int | None = None  # noqa: N815
    fuel: str | None = None
    codeFipe: str | None = None  # noqa: N815
    referenceMonth: str | None = None  # noqa: N815


class PricedInPortuguese(BaseModel):
    Valor: str | None = None
    Marca: str | None = None
    Modelo: str | None = None
    AnoModelo: int | None = None
    Combustivel: str | None = None
    CodigoFipe: str | None = None
    MesReferencia: str | None = None

    def translated(self) -> Priced:
        return Priced(
            price=self.Valor,
            brand=self.Marca,
            model=self.Modelo,
            modelYear=self.AnoModelo,
            fuel=self.Combustivel,
            codeFipe=self.CodigoFipe,
            referenceMonth=self.MesReferencia,
        )


@dataclass(frozen=True, slots=True)
class _Words:
    brands: str
    models: str
    years: str


_DIALECTS = {1: _Words("marcas", "modelos", "anos"), 2: _Words("brands", "models", "years")}


class FipeTable:
    def __init__(
        self,
        http: HttpClient,
        base_url: str,
        token: SecretStr | None = None,
        *,
        lists_seconds: float = 0.0,
        limits: LaneLimits | None = None,
    ) -> None:
        self.lane = lane_of("fipe", base_url, limits)
        self._lists: ListCache[Entry] = ListCache(lists_seconds)
        self._http = http
        self._base = base_url.rstrip("/")
        self._version = 1 if self._base.endswith("/v1") else 2
        self._words = _DIALECTS[self._version]
        self._headers = {"x-subscription-token": token.get_secret_value()} if token else {}

    async def price(self, vehicle: Analysis) -> Evidence:
        """A vehicle that the kept lists do not have is looked up in new ones."""
        try:
            return await self._price(vehicle)
        except Fatal as error:
            if error.code != NOT_FOUND or not self._lists.forget(older_than=NEW_SECONDS):
                raise
        return await self._price(vehicle)

    async def _price(self, vehicle: Analysis) -> Evidence:
        kind = (
            PORTUGUESE[vehicle.vehicle_type] if self._version == 1 else vehicle.vehicle_type.value
        )
        words = self._words
        with as_task_errors(patient=False):
            brands = f"{self._base}/{kind}/{words.brands}"
            listed = self._lists.get
            brand = _closest(vehicle.brand or "", await listed(brands, self._list), "brand")
            models = f"{brands}/{quote(brand.code, safe='')}/{words.models}"
            model = _closest(
                vehicle.model or "", await listed(models, self._models), f"model of {brand.name}"
            )
            years = f"{models}/{quote(model.code, safe='')}/{words.years}"
            year = _year(vehicle, await listed(years, self._list), f"{brand.name} {model.name}")
            url = f"{years}/{quote(year.code, safe='')}"
            return _evidence(url, await self._priced(url))

    async def _list(self, url: str) -> list[Entry]:
        return (await self._http.call("GET", url, headers=self._headers, answer=Entries)).root

    async def _models(self, url: str) -> list[Entry]:
        if self._version == 2:
            return await self._list(url)
        return (await self._http.call("GET", url, headers=self._headers, answer=Models)).modelos

    async def _priced(self, url: str) -> Priced:
        if self._version == 2:
            return await self._http.call("GET", url, headers=self._headers, answer=Priced)
        return (
            await self._http.call("GET", url, headers=self._headers, answer=PricedInPortuguese)
        ).translated()


def _evidence(url: str, found: Priced) -> Evidence:
    amount = price_in(found.price or "", currency_hint="BRL").amount
    if amount is None or not 0 < amount < MAX_PRICE:
        raise Fatal(
            f"the FIPE table has no valid price: {found.price!r} ({url})", code="FIPE_NO_PRICE"
        )
    details = found.model_dump(exclude={"price"}, exclude_none=True)
    title = " ".join(
        str(part) for part in (found.brand, found.model, found.modelYear, found.fuel) if part
    )
    return Evidence(
        position=1,
        source="FIPE",
        title=title[:500],
        url=url,
        price=amount,
        currency="BRL",
        method=Method.FIPE,
        excerpt=found.price,
        fetched_at=datetime.now(UTC),
        details=details,
    )


def _closest(wanted: str, entries: Sequence[Entry], what: str) -> Entry:
    """The entry with the most words of `wanted`; of equals the one with the fewest others."""
    words = _words(wanted)
    scored = [
        (len(words & _words(entry.name)), -len(_words(entry.name)), entry) for entry in entries
    ]
    best = max(scored, key=lambda one: one[:2], default=None)
    if best is None or best[0] == 0:
        raise Fatal(f"the FIPE table has no {what} like {wanted!r}", code=NOT_FOUND)
    return best[2]


def _year(vehicle: Analysis, entries: Sequence[Entry], what: str) -> Entry:
    """The entry of the vehicle's year or the newest, with the vehicle's fuel if there is one."""
    by_year: dict[int, list[Entry]] = {}
    for entry in entries:
        digits = entry.code.partition("-")[0]
        if digits.isascii() and digits.isdigit() and len(digits) <= MAX_YEAR_DIGITS:
            by_year.setdefault(int(digits), []).append(entry)
    year = vehicle.model_year or max(by_year, default=None)
    if year is None or year not in by_year:
        known = ", ".join(map(str, sorted(by_year))) or "none"
        raise Fatal(f"the FIPE table has no {what} of {year}; it has {known}", code=NOT_FOUND)
    fuel = _words(vehicle.fuel or "")
    return next((entry for entry in by_year[year] if fuel & _words(entry.name)), by_year[year][0])


def _words(text: str) -> frozenset[str]:
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return frozenset(_merged(_WORD.findall(plain)))


def _merged(words: Iterable[str]) -> list[str]:
    """The words with one name for each brand: VW is Volkswagen, GM is Chevrolet."""
    same = {"vw": "volkswagen", "gm": "chevrolet"}
    return [same.get(word, word) for word in words]
