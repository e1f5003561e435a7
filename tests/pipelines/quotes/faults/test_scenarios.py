"""The specification's scenarios: deploy, crash, lost connection, out of memory, manual stop."""

from __future__ import annotations

import asyncio
import resource
import signal
from pathlib import Path

import pytest

from regente import Regente
from regente.pipelines.quotes.operations import QuoteOperations
from regente.pipelines.quotes.standins.quotes import MarketFaultKind, QuotesStandin, Route
from regente.services.sandbox import Sandbox
from tests.pipelines.quotes.conftest import CHAIR, GOL, ended, paid_once, standing_at
from tests.pipelines.quotes.processes import QuoteRunner, audited, expire_leases
from tests.support.eventually import eventually_async
from tests.support.running import runner_in


async def test_deploy_a_runner_that_is_told_to_stop_hands_its_quotes_on(
    database_url: str,
    sandbox: Sandbox,
    market: QuotesStandin,
    app: Regente,
    operations: QuoteOperations,
    tmp_path: Path,
) -> None:
    """Q12 (deploy): SIGTERM while quotes wait for slow pages; the new release continues them."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    ids = (await operations.submit([CHAIR] * 3)).ids
    with QuoteRunner(
        database_url, sandbox.url, tmp_path, environment={"REGENTE_DRAIN_SECONDS": "0.2"}
    ) as old:
        for quote_id in ids:
            await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
        old.send(signal.SIGTERM)
        assert await asyncio.to_thread(old.wait) == 0, old.said()
    market.mend()
    async with runner_in(app):
        found = [await ended(operations, quote_id) for quote_id in ids]
    assert [(one.status, one.attempt_number) for one in found] == [("DONE", 2)] * 3
    assert [(await app.get(one)).crashes for one in ids] == [0] * 3
    paid_once(market, analyses=3, searches=3)
    assert audited(database_url) == []


async def test_deploy_a_quote_that_can_finish_in_time_finishes(
    database_url: str,
    sandbox: Sandbox,
    market: QuotesStandin,
    operations: QuoteOperations,
    tmp_path: Path,
) -> None:
    """Q12 (deploy): a quote that is nearly done ends before the runner."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    (quote_id,) = (await operations.submit([CHAIR])).ids
    with QuoteRunner(database_url, sandbox.url, tmp_path) as old:
        await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
        old.send(signal.SIGTERM)
        market.mend()
        assert await asyncio.to_thread(old.wait) == 0, old.said()
    found = await operations.get(quote_id)
    assert (found.status, found.attempt_number) == ("DONE", 1)


async def test_crash_a_killed_runner_is_replaced(
    database_url: str,
    sandbox: Sandbox,
    market: QuotesStandin,
    app: Regente,
    operations: QuoteOperations,
    tmp_path: Path,
) -> None:
    """Q12 (crash): SIGKILL while quotes are at different checkpoints."""
    market.break_with(Route.FIPE, MarketFaultKind.HANG)
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    chair, gol = (await operations.submit([CHAIR])).ids + (await operations.submit([GOL])).ids
    with QuoteRunner(database_url, sandbox.url, tmp_path) as crashing:
        await standing_at(operations, chair, "PRICE_EXTRACTION_START")
        await standing_at(operations, gol, "FIPE_SEARCH")
        crashing.kill()
    market.mend()
    expire_leases(database_url)
    async with runner_in(app):
        found = [await ended(operations, one) for one in (chair, gol)]
    assert [(one.status, one.attempt_number) for one in found] == [("DONE", 2)] * 2
    paid_once(market, analyses=2, searches=1)
    assert audited(database_url) == []


@pytest.mark.parametrize(
    ("route", "kind"),
    [
        (Route.ANALYSIS, MarketFaultKind.UNAVAILABLE),
        (Route.ANALYSIS, MarketFaultKind.LOST),
        (Route.ANALYSIS, MarketFaultKind.THROTTLED),
        (Route.SEARCH, MarketFaultKind.UNAVAILABLE),
        (Route.SEARCH, MarketFaultKind.LOST),
        (Route.FIPE, MarketFaultKind.UNAVAILABLE),
    ],
)
async def test_lost_connection_a_provider_that_goes_away_is_asked_again(
    route: Route,
    kind: MarketFaultKind,
    market: QuotesStandin,
    app: Regente,
    operations: QuoteOperations,
) -> None:
    """Q12 (lost connection): two failures, then an answer. A lost paid answer is not paid again."""
    market.break_with(route, kind, count=2, retry_after=0)
    args = GOL if route is Route.FIPE else CHAIR
    async with runner_in(app):
        (quote_id,) = (await operations.submit([args])).ids
        found = await ended(operations, quote_id)
    assert (found.status, found.attempt_number) == ("DONE", 3)
    paid_once(market, analyses=1, searches=int(args is CHAIR))


async def test_lost_connection_providers_and_pages_are_away_for_a_while(
    market: QuotesStandin, app: Regente, operations: QuoteOperations
) -> None:
    """Q12 (lost connection): more failures than a small retry limit allows."""
    market.break_with(Route.ANALYSIS, MarketFaultKind.UNAVAILABLE, count=8)
    async with runner_in(app):
        (quote_id,) = (await operations.submit([CHAIR])).ids
        found = await ended(operations, quote_id)
    assert (found.status, found.attempt_number) == ("DONE", 9)
    paid_once(market, analyses=1, searches=1)


async def test_out_of_memory_a_runner_without_memory_loses_no_quote(
    database_url: str,
    sandbox: Sandbox,
    market: QuotesStandin,
    app: Regente,
    operations: QuoteOperations,
    tmp_path: Path,
) -> None:
    """Q12 (out of memory): the limit falls below the process's size; all quotes are still made."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    ids = (await operations.submit([CHAIR] * 3)).ids
    with QuoteRunner(database_url, sandbox.url, tmp_path) as starved:
        for quote_id in ids:
            await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
        resource.prlimit(starved.pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        market.mend()
        market.break_with(Route.PAGE, MarketFaultKind.HUGE)
        await until_it_shows(starved)
        starved.kill()  # what a supervisor does with a process that is beyond its limit
    market.mend()
    expire_leases(database_url)
    async with runner_in(app):
        found = [await ended(operations, quote_id) for quote_id in ids]
    assert {one.status for one in found} == {"DONE"}
    paid_once(market, analyses=3, searches=3)
    assert audited(database_url) == []


async def until_it_shows(starved: QuoteRunner) -> None:
    """Waits until it has died or reports the lack of memory."""

    async def shows() -> bool:
        return starved.exit_code is not None or "MemoryError" in starved.said()

    assert await eventually_async(shows, within_seconds=20.0), starved.said()


async def test_manual_stop_a_canceled_quote_ends_and_a_retry_goes_on_where_it_stood(
    market: QuotesStandin, app: Regente, operations: QuoteOperations
) -> None:
    """Q12 (manual stop): a retry after a cancel uses the paid answers."""
    market.break_with(Route.PAGE, MarketFaultKind.HANG)
    async with runner_in(app):
        (quote_id,) = (await operations.submit([CHAIR])).ids
        await standing_at(operations, quote_id, "PRICE_EXTRACTION_START")
        await app.cancel(quote_id, by="operator")
        assert (await ended(operations, quote_id)).status == "CANCELLED"
        market.mend()
        await app.retry(quote_id, by="operator")
        assert (await ended(operations, quote_id)).status == "DONE"
    paid_once(market, analyses=1, searches=1)


async def test_manual_stop_a_paused_pipeline_starts_nothing_and_goes_on_later(
    market: QuotesStandin, app: Regente, operations: QuoteOperations
) -> None:
    """Q12 (manual stop): new quotes wait while it is paused, and are made when it is resumed."""
    await app.pause("quotes")
    (quote_id,) = (await operations.submit([CHAIR])).ids
    await app.run(until_idle=True)
    assert ((await operations.get(quote_id)).status, market.calls["analysis"]) == (
        "PENDING",
        0,
    )
    await app.resume("quotes")
    await app.run(until_idle=True)
    assert (await operations.get(quote_id)).status == "DONE"
