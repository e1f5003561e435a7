"""The calls to the providers: what is sent, and what their answers become."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from regente import Regente, Transient
from regente.asgi.server import serving
from regente.http_client.client import HttpClient
from regente.pipelines.quotes.anthropic import AnthropicAnalyst
from regente.pipelines.quotes.fipe import FipeTable
from regente.pipelines.quotes.models import Analysis, Kind, Product
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.serpapi import SerpApiShopping
from regente.pipelines.quotes.settings import QuotesSettings
from regente.pipelines.quotes.standins.quotes import MarketFaultKind, QuotesStandin, Route
from regente.services.sandbox import Sandbox
from tests.pipelines.quotes.conftest import CHAIR, GOL, SHOPS, ended
from tests.support.running import runner_in

GOOGLE = "https://www.google.com/search?ibp=oshop&q=chair&prds=1"


class Provider:
    """A provider that gives the test's answers, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.app = FastAPI()
        self.app.add_api_route("/{path:path}", self.answer, methods=["GET", "POST"])

    async def answer(self, path: str, request: Request) -> JSONResponse:
        body = await request.json() if request.method == "POST" else {}
        self.asked.append({**request.query_params, **body})
        found = self.answers[request.query_params.get("engine", path)]
        return found if isinstance(found, JSONResponse) else JSONResponse(found)


@asynccontextmanager
async def provider() -> AsyncIterator[tuple[Provider, str, HttpClient]]:
    given, http = Provider(), HttpClient(5.0)
    async with serving(given.app, drain_seconds=0) as url:
        yield given, url, http
        await http.close()


def shopping(http: HttpClient, url: str) -> SerpApiShopping:
    return SerpApiShopping(http, url, None, country="br", language="pt-br", currency="BRL")


def hit(**fields: Any) -> dict[str, Any]:
    """A hit as SerpAPI answers now: no `link`."""
    return {
        "position": 1,
        "title": "Chair",
        "product_link": GOOGLE,
        "product_id": "1",
        "immersive_product_page_token": "TOKEN",
        "serpapi_immersive_product_api": "https://serpapi.com/search.json?engine=…",
        "source": "Shop",
        "price": "R$ 41,00",
        "extracted_price": 41.0,
    } | fields


@pytest.mark.parametrize(
    ("fields", "price", "currency"),
    [
        ({}, "41.00", "BRL"),
        ({"price": "$41.00"}, "41.00", "USD"),
        ({"price": "US$ 41.00"}, "41.00", "USD"),
        ({"price": "41,00 €"}, "41.00", "EUR"),
        ({"price": None}, "41.00", None),
        (
            {
                "price": "$41.00",
                "alternative_price": {"price": "R$ 220,00", "extracted_price": 220},
            },
            "220.00",
            "BRL",
        ),
        (
            {"price": "$41.00", "alternative_price": {"currency": "EUR", "extracted_price": 38}},
            "41.00",
            "USD",
        ),
    ],
)
async def test_a_listed_price_has_its_currency(
    fields: dict[str, Any], price: str, currency: str | None
) -> None:
    """Q6: of the text beside the number; the alternative price, if it is in reais."""
    async with provider() as (given, url, http):
        given.answers["google_shopping"] = {"shopping_results": [hit(**fields)]}
        found = await shopping(http, url).search("chair", "key")
    (product,) = found.products
    assert (product.listed_price, product.listed_currency) == (Decimal(price), currency)
    assert (product.url, product.listing_url, product.lookup_id) == (None, GOOGLE, "TOKEN")


@pytest.mark.parametrize(
    ("stores", "page", "source"),
    [
        (
            [
                {"name": "Other", "link": "https://o.br/1"},
                {"name": "SHOP", "link": "https://s.br/1"},
            ],
            "https://s.br/1",
            "Shop",
        ),
        ([{"name": "Other", "link": "https://o.br/1"}], "https://o.br/1", "Other"),
        ([{"name": "Shop", "link": "https://www.google.com.br/url?q=x"}], None, "Shop"),
        ([{"name": "Shop"}], None, "Shop"),
        ([], None, "Shop"),
    ],
)
async def test_a_shops_own_page_is_looked_up_by_its_token(
    stores: list[dict[str, Any]], page: str | None, source: str
) -> None:
    """Q6: the product's shop, else another one; never a page of the search engine."""
    product = Product(position=1, title="t", source="Shop", lookup_id="TOKEN")
    async with provider() as (given, url, http):
        given.answers["google_immersive_product"] = {"product_results": {"stores": stores}}
        found = await shopping(http, url).with_page(product, "key", patient=True)
    assert (found.url, found.source) == (page, source)
    assert [one["page_token"] for one in given.asked] == ["TOKEN"]


async def test_a_look_up_that_fails_leaves_the_listing() -> None:
    """Q6, Q12: refused at once, away after two waits."""
    product = Product(position=1, title="t", source="Shop", lookup_id="TOKEN")
    async with provider() as (given, url, http):
        given.answers["google_immersive_product"] = JSONResponse({"error": "expired"}, 400)
        search = shopping(http, url)
        assert await search.with_page(product, "key", patient=True) == product
        given.answers["google_immersive_product"] = JSONResponse({"error": "away"}, 503)
        with pytest.raises(Transient):
            await search.with_page(product, "key", patient=True)
        assert await search.with_page(product, "key", patient=False) == product


async def test_shops_are_found_though_the_search_has_no_links(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q6: the sandbox answers as SerpAPI does now; each look-up is paid for once."""
    (quote_id,) = (await operations.submit([CHAIR])).ids
    await app.run(until_idle=True)
    found = await operations.get(quote_id)
    assert {one.source for one in found.sources if one.method not in (None, "listing")} == {
        "Casa Forte",
        "Loja do Bairro",
        "Mega Ofertas",
        "Ponto Certo",
        "Varejo Norte",
    }
    assert all(one.url and "/quotes/shop/" in one.url for one in found.sources)
    assert sorted(market.paid["product"].values()) == [1] * SHOPS


async def test_without_look_ups_the_evidence_is_the_listing(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q6: where the search tells no shop's page, and the look-up finds none either."""
    market.break_with(Route.PRODUCT, MarketFaultKind.UNUSABLE)
    (quote_id,) = (await operations.submit([CHAIR])).ids
    await app.run(until_idle=True)
    found = await operations.get(quote_id)
    assert found.status == "DONE"
    assert {(one.method, one.error) for one in found.sources} == {("listing", "NO_PAGE")}
    assert all(one.url and "google.com" in one.url for one in found.sources)


async def test_a_lost_answer_of_a_look_up_is_not_paid_for_again(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q6, Q12: the same key gets the same answer."""
    market.break_with(Route.PRODUCT, MarketFaultKind.LOST, count=1)
    (quote_id,) = (await operations.submit([CHAIR])).ids
    async with runner_in(app):
        found = await ended(operations, quote_id)
    assert (found.status, found.attempt_number) == ("DONE", 2)
    assert sorted(market.paid["product"].values()) == [1] * SHOPS
    assert market.calls["product_repeated"] >= 1


async def analysed(parameters: dict[str, Any]) -> dict[str, Any]:
    """What the provider was asked with these parameters."""
    reply = {
        "model": "m",
        "content": [
            {
                "type": "tool_use",
                "name": "record_item",
                "input": {"kind": "product", "search_query": "chair"},
            }
        ],
    }
    async with provider() as (given, url, http):
        given.answers["v1/messages"] = reply
        analyst = AnthropicAnalyst(http, url, None, "claude-opus-5", parameters=parameters)
        await analyst.analyse("a chair", "key")
    return given.asked[0]


async def test_the_models_parameters_are_the_operators() -> None:
    """Q6: models that reason refuse `temperature` and a forced tool, others take them."""
    asked = await analysed({})
    assert "temperature" not in asked
    assert (asked["max_tokens"], asked["tool_choice"]["type"]) == (4096, "tool")
    given = {"temperature": 0.2, "max_tokens": 9000, "tool_choice": None, "thinking": {"type": "x"}}
    asked = await analysed(given)
    assert (asked["temperature"], asked["max_tokens"], asked["thinking"]) == (
        0.2,
        9000,
        {"type": "x"},
    )
    assert "tool_choice" not in asked
    assert [one["name"] for one in asked["tools"]] == ["record_item"]


def test_what_a_quote_asks_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q6: parameters are JSON; the prompt and the tool are no parameters."""
    monkeypatch.setenv("REGENTE_QUOTES_ANTHROPIC_PARAMETERS", '{"temperature": 0}')
    assert QuotesSettings().anthropic_parameters == {"temperature": 0}
    monkeypatch.setenv("REGENTE_QUOTES_ANTHROPIC_PARAMETERS", '{"messages": []}')
    with pytest.raises(ValidationError, match="messages cannot be changed"):
        QuotesSettings()


@pytest.mark.parametrize("retry_after", [None, 0])
async def test_a_429_without_a_time_uses_up_tries(
    app: Regente, operations: QuoteOperations, market: QuotesStandin, retry_after: float | None
) -> None:
    """Q12: an account without credit says 429 for ever; the quote ends after ten tries."""
    market.break_with(Route.SEARCH, MarketFaultKind.THROTTLED, retry_after=retry_after)
    (quote_id,) = (await operations.submit([CHAIR])).ids
    async with runner_in(app):
        found = await ended(operations, quote_id)
    assert (found.status, found.error_code, found.attempt_number) == ("ERROR", "HTTP_429", 10)


async def test_the_lists_of_the_fipe_table_are_kept_for_a_time(
    sandbox: Sandbox, market: QuotesStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q2: brands, models and years; prices are asked for each time."""
    now = [0.0]
    http = HttpClient(5.0)
    table = FipeTable(http, f"{sandbox.url}/quotes/fipe/api/v2", lists_seconds=3600)
    monkeypatch.setattr(table._lists, "_clock", lambda: now[0])
    gol = Analysis(
        kind=Kind.VEHICLE, search_query="x", brand="VW", model="Gol 1.0 Flex", model_year=2015
    )
    calls = []
    for at in (0.0, 3599.0, 3601.0):
        now[0] = at
        before = market.calls["fipe"]
        assert (await table.price(gol)).price is not None
        calls.append(market.calls["fipe"] - before)
    assert calls == [4, 1, 4]
    await http.close()


async def test_a_vehicle_that_is_not_in_the_kept_lists_is_looked_up_anew(
    sandbox: Sandbox, market: QuotesStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q2: at most once a minute."""
    now = [0.0]
    http = HttpClient(5.0)
    table = FipeTable(http, f"{sandbox.url}/quotes/fipe/api/v2", lists_seconds=3600)
    monkeypatch.setattr(table._lists, "_clock", lambda: now[0])
    unknown = Analysis(kind=Kind.VEHICLE, search_query="x", brand="Lada", model="Niva")
    calls = []
    for at in (0.0, 30.0, 90.0):
        now[0] = at
        before = market.calls["fipe"]
        with pytest.raises(Exception, match="no brand like 'Lada'"):
            await table.price(unknown)
        calls.append(market.calls["fipe"] - before)
    assert calls == [1, 0, 1]
    await http.close()


async def test_a_lot_of_vehicles_asks_for_each_list_once(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q2, Q8: ten quotes, three lists and ten prices."""
    await operations.submit([GOL] * 10)
    await app.run(until_idle=True)
    assert {one.status for one in await operations.find()} == {"DONE"}
    assert market.calls["fipe"] == 13
