"""The providers' keys are in no failure, event, log line or repr of the settings."""

from __future__ import annotations

import logging

import pytest
from pydantic import SecretStr

from regente import Regente
from regente.engine.codec import encode
from regente.engine.pipeline import Registry
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.settings import QuotesSettings
from regente.pipelines.quotes.setup import HTTP_LOGGERS, register_quotes
from regente.pipelines.quotes.standins.quotes import MarketFaultKind, QuotesStandin, Route
from regente.services.sandbox import Sandbox
from regente.settings import Settings
from tests.pipelines.quotes.conftest import CHAIR

SECRET = "k+y/that=must&not leak"


async def test_a_key_in_an_address_is_masked_everywhere(
    database_url: str,
    settings: Settings,
    sandbox: Sandbox,
    market: QuotesStandin,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SerpAPI takes its key in the query: failures and debug logs name the address without it."""
    for name in ("", *HTTP_LOGGERS):
        caplog.set_level(logging.DEBUG, name)
    base = f"{sandbox.url}/quotes"
    quotes = QuotesSettings(
        serpapi_key=SecretStr(SECRET),
        anthropic_key=SecretStr(f"a{SECRET}"),
        serpapi_url=f"{base}/serpapi",
        anthropic_url=f"{base}/anthropic",
        fipe_url=f"{base}/fipe/api/v1",
    )
    registry = Registry()
    market.break_with(Route.SEARCH, MarketFaultKind.UNAVAILABLE, status=401)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        pipelines = register_quotes(registry, app, quotes, "http://127.0.0.1:1")
        (quote_id,) = (await QuoteOperations(app).submit([CHAIR])).ids
        await app.run(until_idle=True)
        task = await app.get(quote_id)
        told = [
            encode(await app.failures(quote_id), what="failures"),
            str(await app.task_events(quote_id)),
            str(task),
            caplog.text,
        ]
        await pipelines.close()
    for name in HTTP_LOGGERS:
        logging.getLogger(name).filters.clear()
    assert (task.status, task.error_code) == ("failed", "HTTP_401")
    assert "api_key=[secret]" in (task.error_message or "")
    assert "api_key=[secret]" in caplog.text
    for text in (*told, repr(quotes)):
        assert "that=must" not in text
        assert "that%3Dmust" not in text


async def test_the_fipe_table_is_read_in_both_versions(
    database_url: str, settings: Settings, sandbox: Sandbox, market: QuotesStandin
) -> None:
    """Q2: version 1 is in Portuguese, version 2 in English; the price is the same."""
    values = []
    for version in ("v1", "v2"):
        registry = Registry()
        async with Regente(database_url, settings=settings, pipelines=registry) as app:
            chosen = QuotesSettings(fipe_url=f"{sandbox.url}/quotes/fipe/api/{version}")
            pipelines = register_quotes(registry, app, chosen, sandbox.url)
            operations = QuoteOperations(app)
            (quote_id,) = (
                await operations.submit(
                    [CHAIR.model_copy(update={"description": "GM Onix hatch 1.0 2019"})]
                )
            ).ids
            await app.run(until_idle=True)
            found = await operations.get(quote_id)
            values.append((found.value, found.sources[0].details))
            await pipelines.close()
    assert values[0] == values[1]
    assert values[0][1]["model"] == "ONIX HATCH 1.0 12V Flex 5p Mec."
