"""A sandbox in place of the providers, an app that makes quotes with it, and waiting functions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regente import Regente
from regente.engine.pipeline import Registry
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.read_models import QuoteDetail
from regente.pipelines.quotes.settings import QuotesSettings
from regente.pipelines.quotes.setup import register_quotes
from regente.pipelines.quotes.standins.quotes import QuotesStandin
from regente.services.sandbox import Sandbox
from regente.settings import Settings
from tests.support.eventually import eventually_async

CHAIR = QuoteArgs(description="Cadeira de escritório ergonômica preta")
GOL = QuoteArgs(description="Volkswagen Gol 1.0 Flex ano 2015, prata")
SHOPS = 6
QUICK = QuotesSettings(retry_seconds=0.01, http_timeout=10.0)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path,
        sweep_seconds=0.2,
        batches_seconds=0.2,
        schedules_seconds=0.2,
        drain_seconds=5.0,
        max_crashes=50,
    )


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(proxies=0, seed=7, standins=[QuotesStandin(7)]) as opened:
        yield opened


@pytest.fixture
def market(sandbox: Sandbox) -> QuotesStandin:
    return next(one for one in sandbox.standins if isinstance(one, QuotesStandin))


@pytest.fixture
async def app(
    database_url: str, registry: Registry, settings: Settings, sandbox: Sandbox
) -> AsyncIterator[Regente]:
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        pipelines = register_quotes(registry, opened, QUICK, sandbox.url)
        yield opened
        await pipelines.close()


@pytest.fixture
def operations(app: Regente) -> QuoteOperations:
    return QuoteOperations(app)


async def ended(
    operations: QuoteOperations, quote_id: int, within_seconds: float = 60.0
) -> QuoteDetail:
    async def look() -> QuoteDetail | None:
        found = await operations.get(quote_id)
        return found if found.status in ("DONE", "ERROR", "CANCELLED") else None

    found = await eventually_async(look, within_seconds=within_seconds)
    assert found is not None
    return found


async def standing_at(operations: QuoteOperations, quote_id: int, checkpoint: str) -> None:
    async def there() -> bool:
        return (await operations.get(quote_id)).processing_checkpoint == checkpoint

    assert await eventually_async(there, within_seconds=60.0)


def paid_once(market: QuotesStandin, *, analyses: int, searches: int) -> None:
    """The provider's own counts: so many calls were paid for, none of them twice."""
    for route, orders in (("analysis", analyses), ("search", searches)):
        assert (sum(market.paid[route].values()), len(market.paid[route])) == (orders, orders), (
            route,
            market.paid[route],
        )
    assert set(market.paid["product"].values()) <= {1}, market.paid["product"]
