"""Prices have currencies: one in another currency does not count, and the evidence says so."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from regente.http_client.lanes import without_lane
from regente.pipelines.quotes.currencies import currency_of
from regente.pipelines.quotes.models import Evidence, Product
from regente.pipelines.quotes.price_extraction import read_price
from regente.pipelines.quotes.product_pages import HttpProductPages
from tests.services.writer.source_server import SourceServer, Visit

LD = '<script type="application/ld+json">%s</script>'


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("R$", "BRL"),
        ("BRL", "BRL"),
        ("brl", "BRL"),
        ("reais", "BRL"),
        ("986", "BRL"),
        (986, "BRL"),
        ("$", "USD"),
        ("US$", "USD"),
        ("USD", "USD"),
        ("€", "EUR"),
        ("EUR", "EUR"),
        ("£", "GBP"),
        (["EUR"], "EUR"),
        ("bitcoins", "BITCOINS"),
        ("", None),
        (None, None),
        ({}, None),
    ],
)
def test_a_currency_has_one_code(written: Any, code: str | None) -> None:
    """Q6: an unknown one is another one, and none is none."""
    assert currency_of(written, "BRL") == code


def test_a_dollar_sign_is_that_of_the_wanted_currency() -> None:
    """Q6: where prices are in pesos or dollars."""
    assert [currency_of("$", wanted) for wanted in ("BRL", "EUR", "MXN", "CAD")] == [
        "USD",
        "USD",
        "MXN",
        "CAD",
    ]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<b itemprop="price">$ 41.00</b>', ("41.00", "USD")),
        ('<b itemprop="price">US$ 41.00</b>', ("41.00", "USD")),
        ('<b itemprop="price">€ 41,00</b>', ("41.00", "EUR")),
        ('<b itemprop="price" content="41.00">$41.00</b>', ("41.00", "USD")),
        ('<i itemprop="priceCurrency">EUR</i><b itemprop="price">41</b>', ("41", "EUR")),
        ('<i itemprop="priceCurrency" content="BRL"/><b itemprop="price">$ 41</b>', ("41", "BRL")),
        ('<meta property="og:price:amount" content="$ 41.00">', ("41.00", "USD")),
        (
            (
                '<meta property="product:price:amount" content="41.00">'
                '<meta property="product:price:currency" content="US$">'
            ),
            ("41.00", "USD"),
        ),
        (LD % '{"@type":"Product","offers":{"price":"$ 41.00"}}', ("41.00", "USD")),
        (
            LD % '{"@type":"Product","offers":{"price":"41.00","priceCurrency":"US$"}}',
            ("41.00", "USD"),
        ),
        (
            LD % '{"@type":"Product","offers":{"price":41,"priceCurrency":["EUR"]}}',
            ("41", "EUR"),
        ),
        (
            LD % '{"@type":"Product","offers":{"priceCurrency":"USD",'
            '"priceSpecification":{"price":41}}}',
            ("41", "USD"),
        ),
        (
            LD % '{"@type":"Product","offers":{"@type":"AggregateOffer","priceCurrency":"USD",'
            '"offers":[{"price":41}]}}',
            ("41", "USD"),
        ),
        ('<p class="price">$ 41.00</p>', ("41.00", "USD")),
        ('<p class="price">41.00 USD</p>', ("41.00", "USD")),
        ('<p class="price">AR$ 500</p>', ("500", "ARS")),
        ('<p class="price">US$ 41.00 (R$ 220,00)</p>', ("220.00", "BRL")),
        (
            LD % '{"@type":"Product","offers":{"price":41,"priceCurrency":"USD"}}'
            + '<p class="price">R$ 220,00</p>',
            ("220.00", "BRL"),
        ),
        ('<b itemprop="price">R$ 7,50</b>', ("7.50", "BRL")),
        ('<b itemprop="price">7.50</b>', ("7.50", None)),
        ('<p><i>$</i><b itemprop="price" content="41.00">41.00</b></p>', ("41.00", "USD")),
        (
            (
                '<meta property="product:price:amount" content="41.00">'
                '<meta property="og:price:currency" content="USD">'
            ),
            ("41.00", "USD"),
        ),
        (
            LD % '{"@type":"Product","offers":{"price":"41.00"}}' + '<p class="price">$ 41.00</p>',
            ("41.00", "USD"),
        ),
        (
            LD % '{"@type":"Product","offers":{"price":"41.00"}}'
            + '<p class="price">US$ 8,00</p><p class="price">R$ 41,00</p>',
            ("41.00", "BRL"),
        ),
        (
            LD % '{"@type":"Product","offers":{"price":"41.00"}}'
            + '<p class="price">EUR 45.00</p>',
            ("41.00", "EUR"),
        ),
        (
            (
                '<p><i itemprop="priceCurrency" content="USD"></i><b itemprop="price">41.00</b></p>'
                '<p><i itemprop="priceCurrency" content="BRL"></i><b itemprop="price">220</b></p>'
            ),
            ("220", "BRL"),
        ),
    ],
)
def test_a_price_has_the_currency_that_is_written_with_it(
    html: str, expected: tuple[str, str | None]
) -> None:
    """Q6: with the price, else in its markup; one in reais is preferred."""
    found = read_price(html, "BRL")
    assert found is not None
    assert (str(found.amount), found.currency) == expected


async def looked_at(html: str, listed_currency: str | None = "BRL") -> Evidence:
    """The evidence of a page, of a product that is listed for 5.00."""

    async def page(visit: Visit) -> None:
        await visit.head(content_length=len(html.encode()), content_type="text/html")
        await visit.send(html.encode())

    async with SourceServer().running() as shop:
        pages = HttpProductPages(5.0, currency="BRL", home=shop.url, accept_listing=True)
        product = Product(
            position=1,
            title="t",
            source="s",
            url=shop.on("/p", page),
            listed_price=Decimal("5.00"),
            listed_currency=listed_currency,
        )
        found = await pages.look(product, without_lane, patient=True)
        await pages.close()
    return found


async def test_a_page_in_dollars_does_not_count_and_the_evidence_says_so() -> None:
    """Q6: '$ 41.00' is not R$ 41.00."""
    found = await looked_at('<b itemprop="price">$ 41.00</b>', listed_currency="USD")
    assert (found.price, found.currency, found.method) == (None, None, None)
    assert found.error == "OTHER_CURRENCY"
    assert found.details["left_out"] == {"price": "41.00", "currency": "USD", "method": "microdata"}
    assert found.excerpt is not None
    assert "$ 41.00" in found.excerpt


async def test_a_listing_in_reais_counts_in_place_of_a_page_in_dollars() -> None:
    """Q6: as listing, with the reason."""
    found = await looked_at('<b itemprop="price">$ 41.00</b>')
    assert (found.price, found.method, found.error) == (
        Decimal("5.00"),
        "listing",
        "OTHER_CURRENCY",
    )
    assert found.details["left_out"]["currency"] == "USD"


async def test_a_listing_in_dollars_does_not_count() -> None:
    """Q6: where the page shows no price."""
    found = await looked_at("<p>Consulte-nos.</p>", listed_currency="USD")
    assert (found.price, found.error) == (None, "NO_PRICE")
    assert found.details["left_out"] == {"price": "5.00", "currency": "USD", "method": "listing"}


async def test_a_page_without_any_currency_is_taken_for_the_quotes_and_says_so() -> None:
    """Q6: most Brazilian pages name none in their markup."""
    found = await looked_at('<b itemprop="price">7.50</b>')
    assert (found.price, found.currency, found.details) == (
        Decimal("7.50"),
        "BRL",
        {"currency": "the page names none"},
    )
