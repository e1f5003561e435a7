"""Quotes from the description to the price, with the evidence for it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from psycopg.rows import dict_row

from regente import InvalidInput, NotFound, Regente
from regente.pipelines.quotes.checkpoints import Checkpoint
from regente.pipelines.quotes.models import QuoteArgs
from regente.pipelines.quotes.operations import QuoteOperations, quote_args
from regente.pipelines.quotes.standins.quotes import MarketFaultKind, QuotesStandin, Route
from tests.pipelines.quotes.conftest import CHAIR, GOL, SHOPS, ended, paid_once
from tests.support.running import runner_in

PRODUCT_COURSE = [
    "INIT",
    "AI_ANALYSIS_START",
    "AI_ANALYSIS_DONE",
    "SHOPPING_SEARCH_START",
    "SHOPPING_SEARCH_DONE",
    "PRICE_EXTRACTION_START",
    "PRICE_EXTRACTION_PROGRESS",
    "PRICE_EXTRACTION_DONE",
    "FINALIZATION",
    "COMPLETED",
]
VEHICLE_COURSE = [
    "INIT",
    "AI_ANALYSIS_START",
    "AI_ANALYSIS_DONE",
    "FIPE_SEARCH",
    "FINALIZATION",
    "COMPLETED",
]
WATCH = b"""
CREATE TABLE public.course (n bigserial, task_id bigint, checkpoint text);
CREATE FUNCTION public.note_course() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.course (task_id, checkpoint)
    VALUES (NEW.id, NEW.checkpoint); RETURN NULL; END $$;
CREATE TRIGGER course AFTER UPDATE ON regente.tasks FOR EACH ROW
WHEN (NEW.checkpoint IS DISTINCT FROM OLD.checkpoint) EXECUTE FUNCTION public.note_course()
"""


async def execute(app: Regente, text: bytes, **params: Any) -> list[dict[str, Any]]:
    async with (
        app.database.connection() as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        await cursor.execute(text, params or None, prepare=False)
        return list(await cursor.fetchall()) if cursor.description is not None else []


@pytest.mark.parametrize(
    ("args", "course"), [(CHAIR, PRODUCT_COURSE), (GOL, VEHICLE_COURSE)], ids=["product", "vehicle"]
)
async def test_a_quote_passes_exactly_the_specified_checkpoints(
    args: QuoteArgs, course: list[str], app: Regente, operations: QuoteOperations
) -> None:
    """Q2: each is committed, in this order, and there are no others."""
    await execute(app, WATCH)
    (quote_id,) = (await operations.submit([args])).ids
    await app.run(until_idle=True)
    passed = await execute(
        app, b"SELECT checkpoint FROM public.course WHERE task_id = %(id)s ORDER BY n", id=quote_id
    )
    assert [row["checkpoint"] for row in passed] == course
    assert {*PRODUCT_COURSE, *VEHICLE_COURSE} == {*Checkpoint}


async def test_a_product_is_priced_with_evidence_for_each_source(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q1, Q2, Q6: value, statistics, every source, and the fields of the specification."""
    (quote_id,) = (await operations.submit([CHAIR])).ids
    await app.run(until_idle=True)
    quote = found = await operations.get(quote_id)
    assert (quote.status, quote.processing_checkpoint, quote.progress_percentage) == (
        "DONE",
        "COMPLETED",
        100.0,
    )
    assert (quote.attempt_number, quote.kind, quote.currency) == (1, "product", "BRL")
    assert None not in (quote.started_at, quote.completed_at, quote.last_heartbeat)
    goods = market.market.digest("goods", CHAIR.description)
    prices = [Decimal(market.market.price(goods, number)) / 100 for number in range(1, SHOPS + 1)]
    assert [source.price for source in found.sources] == prices
    methods = ["json_ld", "json_ld", "meta", "text", "microdata", "listing"]
    assert [source.method for source in found.sources] == methods
    assert [source.outlier for source in found.sources] == [False] * 4 + [True, False]
    assert (found.sources[5].error, found.sources[0].error) == ("NO_PRICE", None)
    assert all(source.page_sha256 for source in found.sources)
    kept = sorted(prices[:4] + prices[5:])
    assert quote.value == kept[2]
    assert found.statistics is not None
    assert (found.statistics["prices"], found.statistics["kept"], found.statistics["outliers"]) == (
        6,
        5,
        1,
    )
    assert Decimal(found.statistics["minimum"]) == kept[0]
    assert {*found.resume_data} == {
        "claude_payload_json",
        "google_shopping_response_json",
        "shop_pages",
        "tested_products",
    }
    assert len(found.resume_data["tested_products"]) == SHOPS
    paid_once(market, analyses=1, searches=1)
    assert market.calls["page"] == SHOPS


async def test_a_vehicle_is_looked_up_in_the_fipe_table(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q2: no shopping search is paid for."""
    (quote_id,) = (await operations.submit([GOL])).ids
    await app.run(until_idle=True)
    found = await operations.get(quote_id)
    (source,) = found.sources
    assert (found.status, found.kind, source.source, source.method) == (
        "DONE",
        "vehicle",
        "FIPE",
        "fipe",
    )
    assert (source.details["model"], source.details["modelYear"]) == ("Gol 1.0 Flex 12V 5p", 2015)
    assert found.value == source.price
    paid_once(market, analyses=1, searches=0)


async def test_a_lot_has_counts_and_a_total_value(
    app: Regente, operations: QuoteOperations
) -> None:
    """Q8: a reference that a lot has already is not quoted, or paid for, twice."""
    quotes = [
        quote_args("Mesa de reunião 8 lugares", "P-1"),
        quote_args("Impressora laser colorida", "P-2"),
        GOL,
    ]
    first = await operations.submit(quotes, lot="inventário 2026")
    again = await operations.submit(quotes[:2], lot="inventário 2026")
    assert again.ids == first.ids[:2]
    await app.run(until_idle=True)
    assert first.batch_id is not None
    lot, batch = await operations.lot(first.batch_id)
    assert (lot.total, lot.quoted, batch.completed, batch.balanced) == (3, 3, 3, True)
    listed = await operations.find(batch_id=first.batch_id)
    assert lot.value == sum((one.value or Decimal(0)) for one in listed)
    assert [one.id for one in await operations.lots()] == [first.batch_id]
    assert [one.id for one in listed] == sorted(first.ids, reverse=True)
    assert [one.id for one in await operations.find(before_id=max(first.ids))] == sorted(
        first.ids, reverse=True
    )[1:]
    assert await operations.find(statuses=["ERROR"]) == []


async def test_bad_input_is_refused_and_nothing_is_stored(
    app: Regente, operations: QuoteOperations
) -> None:
    """Bad input gets a clear error."""
    for description in ("", " x ", "a" * 4001, "nul\x00"):
        with pytest.raises(InvalidInput, match="description"):
            quote_args(description)
    with pytest.raises(InvalidInput, match="between 1 and"):
        await operations.submit([])
    with pytest.raises(InvalidInput, match="not a status"):
        await operations.find(statuses=["done"])
    with pytest.raises(NotFound):
        await operations.get(99)
    with pytest.raises(NotFound):
        await operations.lot(99)
    assert await operations.find() == []


async def test_no_price_anywhere_is_an_error_with_its_evidence(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q6: the fetched pages are kept with the reason of each."""
    market.break_with(Route.SEARCH, MarketFaultKind.UNUSABLE, count=1)
    (nothing,) = (await operations.submit([CHAIR])).ids
    await app.run(until_idle=True)
    assert (
        (await operations.get(nothing)).status,
        (await operations.get(nothing)).error_code,
    ) == (
        "ERROR",
        "NOTHING_FOUND",
    )
    await app.retry(nothing)
    await app.run(until_idle=True)
    assert (await operations.get(nothing)).status == "DONE"
    paid_once(market, analyses=1, searches=1)


async def test_an_invalid_analysis_is_not_ordered_again_automatically(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q6: it was paid for."""
    market.break_with(Route.ANALYSIS, MarketFaultKind.UNUSABLE)
    (quote_id,) = (await operations.submit([CHAIR])).ids
    await app.run(until_idle=True)
    found = await operations.get(quote_id)
    assert (found.status, found.error_code, found.attempt_number) == (
        "ERROR",
        "ANALYSIS_UNUSABLE",
        1,
    )


async def test_unreachable_pages_do_not_delay_a_quote_for_ever(
    app: Regente, operations: QuoteOperations, market: QuotesStandin
) -> None:
    """Q12: after two waits the listing's price counts, and the evidence shows so."""
    market.break_with(Route.PAGE, MarketFaultKind.UNAVAILABLE)
    async with runner_in(app):
        (quote_id,) = (await operations.submit([CHAIR])).ids
        found = await ended(operations, quote_id)
    assert (found.status, found.attempt_number) == ("DONE", 3)
    assert {source.method for source in found.sources} == {"listing"}
    assert {source.error for source in found.sources} == {"HTTP_503"}
    paid_once(market, analyses=1, searches=1)
