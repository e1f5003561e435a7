"""Providers that ignore idempotency keys: a paid call of unknown outcome waits for a person."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from regente import Regente
from regente.engine.errors import TaskError, UnknownOutcome
from regente.engine.pipeline import Registry
from regente.http_client.client import HttpClient
from regente.pipelines.quotes.anthropic import AnthropicAnalyst
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.product_pages import HttpProductPages
from regente.pipelines.quotes.providers import on_unknown
from regente.pipelines.quotes.settings import QuotesSettings
from regente.pipelines.quotes.setup import providers, register_quotes
from regente.pipelines.quotes.standins.quotes import (
    Billing,
    MarketFaultKind,
    QuotesStandin,
    Route,
)
from regente.services.sandbox import Sandbox
from regente.settings import Settings
from tests.pipelines.quotes.conftest import CHAIR, QUICK, ended, paid_once
from tests.pipelines.quotes.processes import QuoteRunner, audited, expire_leases
from tests.support.running import runner_in

HOLD: dict[str, Any] = {"analysis_on_unknown": "hold", "search_on_unknown": "hold"}
HOLDING = {f"REGENTE_QUOTES_{name.upper()}": value for name, value in HOLD.items()}
ANALYSED = {
    "analysis": {"kind": "product", "search_query": "cadeira de escritório"},
    "provider": "anthropic",
    "model": "found in its console",
}
FOUND = {
    "query": "cadeira",
    "provider": "serpapi",
    "products": [
        {
            "position": 1,
            "title": "Cadeira",
            "source": "Loja",
            "url": None,
            "listed_price": "120.00",
            "product_id": None,
        }
    ],
}
CALLS = [
    ("step.before_record:3", "AI_ANALYSIS_DONE", Route.ANALYSIS, ANALYSED),
    ("step.before_record:5", "SHOPPING_SEARCH_DONE", Route.SEARCH, FOUND),
]


@pytest.fixture
async def app(
    database_url: str,
    registry: Registry,
    settings: Settings,
    sandbox: Sandbox,
    market: QuotesStandin,
) -> Any:
    market.billing = Billing(honours_keys=False)
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        quotes = QUICK.model_copy(update=HOLD)
        pipelines = register_quotes(registry, opened, quotes, sandbox.url)
        yield opened
        await pipelines.close()


@pytest.mark.parametrize("decision", ["retry", "result"])
@pytest.mark.parametrize(
    ("point", "step", "route", "result"), CALLS, ids=[route for _, _, route, _ in CALLS]
)
async def test_a_paid_call_without_a_record_is_not_repeated_by_itself(
    point: str,
    step: str,
    route: Route,
    result: dict[str, Any],
    decision: str,
    database_url: str,
    sandbox: Sandbox,
    market: QuotesStandin,
    app: Regente,
    operations: QuoteOperations,
    tmp_path: Path,
) -> None:
    """Q6, I2: SIGKILL between answer and record; the quote waits, a person's decision goes on."""
    (quote_id,) = (await operations.submit([CHAIR])).ids
    environment = {"REGENTE_CRASH_POINT": point, **HOLDING}
    with QuoteRunner(database_url, sandbox.url, tmp_path, environment=environment) as crashing:
        assert await asyncio.to_thread(crashing.wait) == -signal.SIGKILL, crashing.said()
    expire_leases(database_url)
    await app.run(until_idle=True)
    assert sum(market.paid[route].values()) == 1
    (asked,) = await app.decisions()
    assert (asked.task_id, asked.step) == (quote_id, step)
    waiting = await operations.get(quote_id)
    assert (waiting.status, waiting.error_code) == ("PROCESSING", "UNKNOWN_OUTCOME")
    assert f"{step} may have been called at" in (waiting.error_message or "")

    if decision == "retry":
        await app.resolve(quote_id, step, retry=True, by="ann")
    else:
        await app.resolve(quote_id, step, result=result, by="ann")
    async with runner_in(app):
        found = await ended(operations, quote_id)
    assert (found.status, found.error_code) == ("DONE", None)
    assert sum(market.paid[route].values()) == (2 if decision == "retry" else 1)
    assert audited(database_url) == []


async def test_a_call_that_was_only_intended_is_not_made_by_itself(
    database_url: str,
    sandbox: Sandbox,
    market: QuotesStandin,
    app: Regente,
    operations: QuoteOperations,
    tmp_path: Path,
) -> None:
    """Q6, I2: SIGKILL before the call, which is not known; after the decision it is paid once."""
    (quote_id,) = (await operations.submit([CHAIR])).ids
    environment = {"REGENTE_CRASH_POINT": "intent.committed", **HOLDING}
    with QuoteRunner(database_url, sandbox.url, tmp_path, environment=environment) as crashing:
        assert await asyncio.to_thread(crashing.wait) == -signal.SIGKILL, crashing.said()
    expire_leases(database_url)
    await app.run(until_idle=True)
    assert (await operations.get(quote_id)).error_code == "UNKNOWN_OUTCOME"
    paid_once(market, analyses=0, searches=0)
    await app.resolve(quote_id, "AI_ANALYSIS_DONE", retry=True, by="ann")
    async with runner_in(app):
        assert (await ended(operations, quote_id)).status == "DONE"
    paid_once(market, analyses=1, searches=1)


@pytest.mark.parametrize("route", [Route.ANALYSIS, Route.SEARCH])
async def test_a_lost_answer_waits_for_a_person(
    route: Route, market: QuotesStandin, app: Regente, operations: QuoteOperations
) -> None:
    """Q6: the connection breaks within the answer, which was paid for."""
    market.break_with(route, MarketFaultKind.LOST, count=1)
    (quote_id,) = (await operations.submit([CHAIR])).ids
    await app.run(until_idle=True)
    assert (await operations.get(quote_id)).error_code == "UNKNOWN_OUTCOME"
    assert sum(market.paid[route].values()) == 1
    assert (await app.get(quote_id)).tries == 0


async def test_a_refusal_is_a_known_outcome(
    market: QuotesStandin, app: Regente, operations: QuoteOperations
) -> None:
    """Q6: a provider that answers 503 or 429 has done nothing: no person is asked."""
    market.break_with(Route.ANALYSIS, MarketFaultKind.UNAVAILABLE, count=1)
    market.break_with(Route.SEARCH, MarketFaultKind.THROTTLED, count=1, retry_after=0)
    async with runner_in(app):
        (quote_id,) = (await operations.submit([CHAIR])).ids
        assert (await ended(operations, quote_id)).status == "DONE"
    paid_once(market, analyses=1, searches=1)


@pytest.mark.parametrize(
    ("what", "lost"),
    [
        (httpx2.ConnectError, False),
        (httpx2.ConnectTimeout, False),
        (httpx2.PoolTimeout, False),
        (httpx2.LocalProtocolError, False),
        (httpx2.WriteTimeout, True),
        (httpx2.ReadTimeout, True),
        (httpx2.ReadError, True),
        (httpx2.RemoteProtocolError, True),
        (httpx2.Response(200, stream=httpx2.ByteStream(b"no JSON")), True),
        (httpx2.Response(200, stream=httpx2.ByteStream(b'{"model": 1}')), True),
        (httpx2.Response(302, stream=httpx2.ByteStream(b"")), False),
        (httpx2.Response(400, stream=httpx2.ByteStream(b"")), False),
        (httpx2.Response(429, stream=httpx2.ByteStream(b"")), False),
        (httpx2.Response(504, stream=httpx2.ByteStream(b"")), False),
    ],
    ids=str,
)
async def test_an_answer_is_lost_only_after_a_request_was_sent(
    what: type[httpx2.TransportError] | httpx2.Response, lost: bool
) -> None:
    """Q6: only then it is unknown whether the call was paid for."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        if isinstance(what, httpx2.Response):
            return what
        raise what("it failed")

    http = HttpClient(1.0, transport=httpx2.MockTransport(answer))
    analyst = AnthropicAnalyst(http, "http://127.0.0.1:1", None, "a model")
    with pytest.raises(TaskError) as failed:
        await analyst.analyse("a chair", "a key")
    await http.close()
    assert isinstance(failed.value, UnknownOutcome) is lost, failed.value


@pytest.mark.parametrize(
    ("given", "analysis", "search"),
    [
        ({}, "retry", "retry"),
        ({"anthropic_key": "k"}, "hold", "hold"),
        ({"anthropic_url": "https://gateway.example"}, "hold", "retry"),
        ({"anthropic_key": "k", "search_on_unknown": "retry"}, "hold", "retry"),
        ({"analysis_on_unknown": "hold"}, "hold", "retry"),
    ],
)
async def test_quotes_choose_by_provider(given: dict[str, Any], analysis: str, search: str) -> None:
    """Q6: providers without idempotency keys hold, the stand-ins retry; an operator may differ."""
    settings, sandbox_url = QuotesSettings(**given), "http://127.0.0.1:8100"
    http = HttpClient(1.0)
    pages = HttpProductPages(1.0, str, currency="BRL", home=sandbox_url, accept_listing=True)
    chosen = providers(http, pages, settings, sandbox_url)
    assert on_unknown(chosen.analyst, settings.analysis_on_unknown) == analysis
    assert on_unknown(chosen.shopping, settings.search_on_unknown) == search
    await http.close()
    await pages.close()
