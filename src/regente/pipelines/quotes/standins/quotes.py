"""Stand-ins for the providers of quotes: the Anthropic Messages API, SerpAPI, the FIPE API and
shops.

Charges are counted by `Idempotency-Key`: a repeated key gets the stored answer and is not charged
again. When set to ignore keys, as providers do that document none, they charge every call.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from regente.pipelines.quotes.standins.market import (
    BRANDS,
    SHOPS,
    Market,
    models_of,
    vehicle_price,
    years_of,
)
from regente.services.sandbox.fault_responses import CutOffResponse

_POLL_SECONDS = 0.02
HUGE_BYTES = 3 * 1024 * 1024
Key = Annotated[str | None, Header(alias="idempotency-key")]


class Route(StrEnum):
    ANALYSIS = "analysis"
    SEARCH = "search"
    PRODUCT = "product"
    FIPE = "fipe"
    PAGE = "page"


PAID = (Route.ANALYSIS, Route.SEARCH, Route.PRODUCT)


class MarketFaultKind(StrEnum):
    UNAVAILABLE = "unavailable"
    """5xx before any work is done."""
    THROTTLED = "throttled"
    """429 with Retry-After, or without."""
    HANG = "hang"
    """No response until the fault is cleared, then the usual one."""
    LOST = "lost"
    """The work is done and charged; the connection closes in the middle of the response."""
    HUGE = "huge"
    """A page of three megabytes."""
    UNUSABLE = "unusable"
    """A response without usable content."""


class MarketFault(BaseModel):
    model_config = ConfigDict(extra="forbid")

    route: Route
    kind: MarketFaultKind
    count: int | None = Field(
        None, ge=1, description="number of calls; without it until it is cleared"
    )
    status: int = Field(503, ge=400, le=599)
    retry_after: float | None = Field(1.0, ge=0, description="null: no Retry-After")


class Billing(BaseModel):
    """How the paid providers treat a call."""

    model_config = ConfigDict(extra="forbid")

    honours_keys: bool = Field(True, description="a repeated key is not charged again")
    answer_seconds: float = Field(
        0.0, ge=0, description="from the charge to the answer; a caller that disconnects has paid"
    )


class QuotesStandin:
    prefix = "/quotes"

    def __init__(self, seed: int) -> None:
        self.market = Market(seed)
        self.calls: dict[str, int] = {}
        self.paid: dict[str, Counter[str]] = {}
        self.faults: list[MarketFault] = []
        self.billing = Billing()
        self._answers: dict[tuple[str, str], dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self.reset()

    def reset(self) -> None:
        self.calls = dict.fromkeys((*Route, *(f"{route}_repeated" for route in PAID)), 0)
        self.paid = {route: Counter() for route in PAID}
        self.faults = []
        self.billing = Billing()
        self._answers = {}

    def break_with(self, route: Route, kind: MarketFaultKind, **scope: Any) -> MarketFault:
        fault = MarketFault(route=route, kind=kind, **scope)
        self.faults.append(fault)
        return fault

    def mend(self) -> None:
        """Remove all faults; calls that hang get their answer."""
        self.faults = []

    def router(self) -> APIRouter:
        routes = APIRouter()
        routes.add_api_route("/anthropic/v1/messages", self.messages, methods=["POST"])
        routes.add_api_route("/serpapi/search.json", self.search, methods=["GET"])
        routes.add_api_route("/shop/{goods}/{number}", self.shop, methods=["GET"])
        for path in (
            "/{kind}/brands",
            "/{kind}/brands/{brand}/models",
            "/{kind}/brands/{brand}/models/{model}/years",
            "/{kind}/brands/{brand}/models/{model}/years/{year}",
        ):
            routes.add_api_route(f"/fipe/api/v2{path}", self.fipe, methods=["GET"])
        for path in (
            "/{kind}/marcas",
            "/{kind}/marcas/{brand}/modelos",
            "/{kind}/marcas/{brand}/modelos/{model}/anos",
            "/{kind}/marcas/{brand}/modelos/{model}/anos/{year}",
        ):
            routes.add_api_route(f"/fipe/api/v1{path}", self.fipe_in_portuguese, methods=["GET"])
        routes.add_api_route("/admin/faults", self.add_fault, methods=["POST"], status_code=201)
        routes.add_api_route("/admin/faults", self.clear_faults, methods=["DELETE"])
        routes.add_api_route("/admin/paid", self.show_paid, methods=["GET"])
        routes.add_api_route("/admin/billing", self.set_billing, methods=["PUT"])
        return routes

    # Routes of the providers.

    async def messages(self, request: Request, order: dict[str, Any], key: Key = None) -> Response:
        def answer() -> dict[str, Any]:
            description = str(order["messages"][-1]["content"])
            block = {
                "type": "tool_use",
                "id": "toolu_1",
                "name": order["tools"][0]["name"],
                "input": self.market.analysis(description),
            }
            usage = {"input_tokens": len(description) // 4 + 300, "output_tokens": 80}
            return {
                "id": f"msg_{self.market.digest('message', description)}",
                "type": "message",
                "role": "assistant",
                "model": order.get("model", ""),
                "content": [block],
                "stop_reason": "tool_use",
                "usage": usage,
            }

        return await self._charge(request, Route.ANALYSIS, key, answer)

    async def search(
        self,
        request: Request,
        engine: str = "google_shopping",
        q: str = "",
        page_token: str = "",
        key: Key = None,
    ) -> Response:
        """As SerpAPI answers since Google's product pages are gone: a hit has no `link` of its
        shop, but a token, with which the engine `google_immersive_product` lists shops."""
        base = str(request.base_url).rstrip("/") + self.prefix
        of_product = engine == "google_immersive_product"

        def answer() -> dict[str, Any]:
            found = (
                {"product_results": {"stores": self.market.stores(page_token, base)}}
                if of_product
                else {"shopping_results": self.market.hits(q, base)}
            )
            return {"search_metadata": {"status": "Success"}, **found}

        return await self._charge(
            request, Route.PRODUCT if of_product else Route.SEARCH, key, answer
        )

    async def shop(self, request: Request, goods: str, number: int) -> Response:
        refused = await self._refusal(request, Route.PAGE)
        if refused is not None:
            return refused
        self.calls[Route.PAGE] += 1
        if not 1 <= number <= len(SHOPS):
            raise HTTPException(404)
        padding = (
            f"<!-- {'x' * HUGE_BYTES} -->"
            if self._take_fault(Route.PAGE, MarketFaultKind.HUGE)
            else ""
        )
        return HTMLResponse(self.market.page(goods, number) + padding)

    async def fipe(
        self,
        request: Request,
        kind: str,
        brand: str | None = None,
        model: str | None = None,
        year: str | None = None,
    ) -> Response:
        refused = await self._refusal(request, Route.FIPE)
        if refused is not None:
            return refused
        self.calls[Route.FIPE] += 1
        found = _fipe(request.url.path.rsplit("/", 1)[1], brand, model, year)
        if found is None or kind != "cars":
            raise HTTPException(404)
        return JSONResponse(found)

    async def fipe_in_portuguese(
        self,
        request: Request,
        kind: str,
        brand: str | None = None,
        model: str | None = None,
        year: str | None = None,
    ) -> Response:
        refused = await self._refusal(request, Route.FIPE)
        if refused is not None:
            return refused
        self.calls[Route.FIPE] += 1
        words = {"marcas": "brands", "modelos": "models", "anos": "years"}
        last = request.url.path.rsplit("/", 1)[1]
        found = _fipe(words.get(last, last), brand, model, year)
        if found is None or kind != "carros":
            raise HTTPException(404)
        return JSONResponse(_in_portuguese(found, models=last == "modelos"))

    # Routes for faults and charges.

    async def add_fault(self, fault: MarketFault) -> dict[str, int]:
        self.faults.append(fault)
        return {"faults": len(self.faults)}

    async def clear_faults(self) -> dict[str, int]:
        self.mend()
        return {"faults": 0}

    async def show_paid(self) -> dict[str, dict[str, int]]:
        """How often each key was charged."""
        return {route: dict(keys) for route, keys in self.paid.items()}

    async def set_billing(self, billing: Billing) -> Billing:
        self.billing = billing
        return billing

    # Helpers.

    async def _charge(
        self, request: Request, route: Route, key: str | None, make_answer: Any
    ) -> Response:
        refused = await self._refusal(request, route)
        if refused is not None:
            return refused
        known = self._answers.get((route, key)) if key and self.billing.honours_keys else None
        if known is None:
            known = make_answer()
            self.calls[route] += 1
            self.paid[route][key or f"none-{next(self._numbers)}"] += 1
            if key:
                self._answers[route, key] = known
        else:
            self.calls[f"{route}_repeated"] += 1
        await asyncio.sleep(self.billing.answer_seconds)
        fault = self._take_fault(route, MarketFaultKind.LOST)
        answer = JSONResponse(known)
        return (
            answer
            if fault is None
            else CutOffResponse(bytes(answer.body), media_type="application/json")
        )

    async def _refusal(self, request: Request, route: Route) -> Response | None:
        if fault := self._take_fault(route, MarketFaultKind.UNAVAILABLE):
            return JSONResponse({"error": "unavailable on request"}, fault.status)
        if fault := self._take_fault(route, MarketFaultKind.THROTTLED):
            after = fault.retry_after
            headers = {} if after is None else {"retry-after": f"{after:g}"}
            return JSONResponse({"error": "slow down"}, 429, headers)
        if self._take_fault(route, MarketFaultKind.UNUSABLE):
            return JSONResponse({"content": [], "shopping_results": [], "price": "?"})
        if fault := self._take_fault(route, MarketFaultKind.HANG):
            while any(one is fault for one in self.faults) and not await request.is_disconnected():
                await asyncio.sleep(_POLL_SECONDS)
        return None

    def _take_fault(self, route: Route, kind: MarketFaultKind) -> MarketFault | None:
        for fault in self.faults:
            if fault.route is route and fault.kind is kind:
                if fault.count is not None and kind is not MarketFaultKind.HANG:
                    fault.count -= 1
                    if fault.count == 0:
                        self.faults.remove(fault)
                return fault
        return None


def _fipe(last: str, brand: str | None, model: str | None, year: str | None) -> Any:
    """Return the answer of FIPE version 2, or None for an unknown vehicle."""
    if brand is None:
        return _entries((one.code, one.name) for one in BRANDS)
    models = {one.code: one for one in models_of(brand) or ()}
    if last == "models":
        return _entries((one.code, one.name) for one in models.values()) or None
    if model is None or model not in models:
        return None
    return (
        _entries(years_of(models[model]))
        if last == "years"
        else vehicle_price(brand, model, year or "")
    )


def _entries(pairs: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"code": code, "name": name} for code, name in pairs]


def _in_portuguese(found: Any, *, models: bool) -> Any:
    if isinstance(found, dict):
        names = {
            "price": "Valor",
            "brand": "Marca",
            "model": "Modelo",
            "modelYear": "AnoModelo",
            "fuel": "Combustivel",
            "codeFipe": "CodigoFipe",
            "referenceMonth": "MesReferencia",
            "fuelAcronym": "SiglaCombustivel",
            "vehicleType": "TipoVeiculo",
        }
        return {names[name]: value for name, value in found.items()}
    listed = [{"codigo": one["code"], "nome": one["name"]} for one in found]
    return {"modelos": listed, "anos": []} if models else listed
