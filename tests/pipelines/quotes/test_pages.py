"""Prices of shop pages, their statistics, and the guard of the addresses."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial

import pytest

from regente.engine.errors import LaneBusy, Transient
from regente.engine.lanes import Lane
from regente.http_client.lanes import InLane, without_lane
from regente.http_client.parsing import SMALL_PAGE_CHARACTERS, parse_page
from regente.pipelines.quotes.appraisal import appraise
from regente.pipelines.quotes.fipe import Entry, _closest, _year
from regente.pipelines.quotes.models import Analysis, Evidence, Kind, Product
from regente.pipelines.quotes.price_extraction import read_price
from regente.pipelines.quotes.product_pages import HttpProductPages
from regente.pipelines.quotes.settings import QuotesSettings
from tests.services.writer.source_server import SourceServer, Visit

LD = '<script type="application/ld+json">%s</script>'


MEGABYTES = 4_000_000


def reopened(characters: int) -> str:
    """A page whose every paragraph opens each of many formatting elements again."""
    opened = "".join(f"<b a{number:x}>" for number in range(characters // 18))
    return f"<p>{opened}</p>{'<p>x' * (characters // 8)}"


HOSTILE = {
    "digits as a price": '<b class="price">R$ %s</b>' % ("1" * MEGABYTES),
    "digits between spaces": '<b class="price">%s</b>' % ("1 " * (MEGABYTES // 2)),
    "digits in a meta tag": '<meta property="og:price:amount" content="%s x">' % ("9" * MEGABYTES),
    "digits in microdata": '<b itemprop="price">%s,</b>' % ("9." * (MEGABYTES // 2)),
    "a number in JSON-LD": LD % f'{{"@type":"Product","offers":{{"price":{"9" * MEGABYTES}}}}}',
    "a text in JSON-LD": LD % f'{{"@type":"Product","offers":{{"price":"x{"9" * MEGABYTES}"}}}}',
    "deep elements": "<div class=price>" * (MEGABYTES // 17),
    "deep JSON-LD": LD % ("[" * MEGABYTES),
    "many prices": '<b class="price">x</b>' * (MEGABYTES // 22),
    "deep boxes": "<div>" * (MEGABYTES // 5),
    "one attribute": '<b class="%s">1</b>' % ("price " * (MEGABYTES // 6)),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("size", [SMALL_PAGE_CHARACTERS - 1, MEGABYTES])
async def test_a_hostile_page_does_not_hold_the_event_loop(name: str, size: int) -> None:
    """F8, F15: it has no price, or takes too long for a process of its own; the loop goes on."""
    page = HOSTILE[name] if size == MEGABYTES else HOSTILE[name][:size]
    began = time.thread_time()
    with contextlib.suppress(Transient):
        await parse_page(read_price, page, seconds=5)
    assert time.thread_time() - began < 1.0


@pytest.mark.parametrize("size", [SMALL_PAGE_CHARACTERS - 100, 40_000, MEGABYTES])
async def test_a_page_that_multiplies_takes_no_memory_of_the_runner(size: int) -> None:
    """F8, F15: 40 kB of formatting elements became 2 GB."""
    page = reopened(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(Transient):
        assert await parse_page(read_price, page, seconds=5) is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024


async def test_large_pages_have_the_same_price_as_small_ones() -> None:
    """Z3: from the child process, with its type."""
    small = LD % '{"@type":"Product","offers":{"price":"1.234,56","priceCurrency":"BRL"}}'
    large = small + "<p>more</p>" * 20_000
    assert await parse_page(read_price, large) == read_price(small)
    assert await parse_page(read_price, "<p>none</p>" * 20_000) is None


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (
            LD % '{"@type":"Product","offers":{"price":"1234.56","priceCurrency":"BRL"}}',
            ("1234.56", "BRL", "json_ld"),
        ),
        (
            LD % '{"@type":"Product","offers":{"price":1234,"priceCurrency":"brl"}}',
            ("1234", "BRL", "json_ld"),
        ),
        (LD % '{"@type":"Product","offers":{"price":"1.234,56"}}', ("1234.56", None, "json_ld")),
        (
            LD % '{"@type":"http://schema.org/Product","offers":[{"lowPrice":10.5}]}',
            ("10.5", None, "json_ld"),
        ),
        (
            LD % '{"@type":"Product","offers":{"priceSpecification":{"price":9}}}',
            ("9", None, "json_ld"),
        ),
        (LD % '{"@graph":[{"@type":"Product","offers":{"price":"5"}}]}', ("5", None, "json_ld")),
        (LD % '{"@type":"Service","offers":{"price":"5"}}', None),  # a delivery
        (LD % '{"@type":"Product","offers":{"price":"0"}}', None),
        (LD % '{"@type":"Product","offers":{"price":true}}', None),
        (LD % "{not json" + '<b itemprop="price">R$ 7,50</b>', ("7.50", "BRL", "microdata")),
        ('<meta property="og:price:amount" content="99.90">', ("99.90", None, "meta")),
        ('<p class="price">de R$ 10,00</p>', ("10.00", "BRL", "text")),
        ('<p class="old-price">R$ 20,00</p><p class="price">12x de R$ 1,00</p>', None),
        (
            '<p class="old-price">R$ 20,00</p><p id="preco-final">US$ 15.00</p>',
            ("15.00", "USD", "text"),
        ),
        ("<p>R$ 10,00 de desconto</p>", None),
        ("", None),
        ("\x00<<<>>>", None),
    ],
)
def test_a_price_is_read_by_the_order_of_its_sources(
    html: str, expected: tuple[str, str | None, str] | None
) -> None:
    """Q6: JSON-LD first, then markup, then text that looks like a price."""
    found = read_price(html)
    assert (
        None if found is None else (str(found.amount), found.currency, found.method.value)
    ) == expected


def evidence(*prices: str | None) -> list[Evidence]:
    now = datetime.now(UTC)
    return [
        Evidence(
            position=number,
            source="s",
            title="t",
            url=None,
            price=None if price is None else Decimal(price),
            fetched_at=now,
        )
        for number, price in enumerate(prices, 1)
    ]


@pytest.mark.parametrize(
    ("prices", "value", "outliers"),
    [
        (["100"], "100.00", []),
        (["100", "110", "90"], "100.00", []),
        (["100", "100", "100", "101", "120"], "100.00", []),  # a dearer shop is no outlier
        (["100", "102", "98", "101", "1000"], "100.50", [5]),  # a set of ten is
        (["100", "102", "98", "9.9", "101"], "100.50", [4]),  # a part is
        (["100", "110", "500"], "105.00", [3]),
        (["100", None, "110"], "105.00", []),
        (["10.005", "10.004"], "10.00", []),
    ],
)
def test_statistics_exclude_outliers(
    prices: list[str | None], value: str, outliers: list[int]
) -> None:
    """Outliers are excluded, and counted."""
    found = appraise(evidence(*prices))
    assert found.statistics is not None
    assert (str(found.statistics.value), found.outliers) == (value, outliers)
    assert found.statistics.prices == sum(price is not None for price in prices)
    assert found.statistics.kept + found.statistics.outliers == found.statistics.prices
    assert found.statistics.minimum <= found.statistics.value <= found.statistics.maximum


def test_no_price_is_no_statistics() -> None:
    """Nothing is invented."""
    assert appraise(evidence(None, None)).statistics is None
    assert appraise([]).statistics is None


def test_a_vehicle_is_found_by_its_words() -> None:
    """Brands have several names; the year and the fuel decide between entries."""
    brands = [
        Entry(code="21", name="Fiat"),
        Entry(code="59", name="VW - VolksWagen"),
        Entry(code="23", name="GM - Chevrolet"),
    ]
    assert _closest("Volkswagen", brands, "brand").code == "59"
    assert _closest("chevrolet", brands, "brand").code == "23"
    years = [
        Entry(code="2015-5", name="2015 Flex"),
        Entry(code="2015-1", name="2015 Gasolina"),
        Entry(code="2014-1", name="2014"),
    ]
    car = Analysis(
        kind=Kind.VEHICLE,
        search_query="x",
        brand="Fiat",
        model="Uno",
        model_year=2015,
        fuel="gasolina",
    )
    assert _year(car, years, "Uno").code == "2015-1"
    odd = [Entry(code="²-1", name="x"), Entry(code="9" * 5_000, name="x"), *years]
    assert _year(car, odd, "Uno").code == "2015-1"
    assert _year(car.model_copy(update={"fuel": None}), years, "Uno").code == "2015-5"
    assert _year(car.model_copy(update={"model_year": None}), years, "Uno").code == "2015-1"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest",
        "http://[::1]/",
        "ftp://a.b/",
        "file:///etc/passwd",
        "http://[bad",
        "http://[::ffff:10.0.0.1]/",
        "https://",
    ],
)
async def test_links_into_our_own_network_are_not_fetched(url: str) -> None:
    """A search result's link is untrusted. Its listed price counts as before."""
    found = await looked_at(url, home="https://serpapi.com")
    assert (found.error, found.method, found.price) == (
        "ADDRESS_REFUSED",
        "listing",
        Decimal("5.00"),
    )


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "127.1", "2130706433", "0x7f000001"])
async def test_a_host_name_is_judged_by_its_addresses(name: str) -> None:
    """Refused before a byte is sent, also on the port of the search under another name."""
    async with SourceServer().running() as ours:
        found = await looked_at(page_on(ours).replace("127.0.0.1", name), home=ours.url)
        assert (found.error, ours.visits) == ("ADDRESS_REFUSED", [])


async def test_a_redirect_into_our_own_network_is_not_followed() -> None:
    """The target of a redirect is checked again, by address and by name."""
    async with SourceServer().running() as sandbox, SourceServer().running() as inner:
        for place in (
            page_on(inner),
            page_on(inner).replace("127.0.0.1", "localhost"),
            "http://169.254.169.254/latest",
        ):

            async def redirect(visit: Visit, place: str = place) -> None:
                await visit.head(302, location=place, content_length=0)

            found = await looked_at(sandbox.on("/shop", redirect), home=sandbox.url)
            assert (found.error, inner.visits) == ("ADDRESS_REFUSED", [])
        assert len(sandbox.visits) == 3


async def test_only_the_configured_sandbox_may_be_local() -> None:
    """Its host and port, and no other on this machine."""
    async with SourceServer().running() as sandbox, SourceServer().running() as other:
        found = await looked_at(page_on(sandbox), home=f"{sandbox.url}/quotes/serpapi")
        assert (found.error, found.price, found.method) == (None, Decimal("7.50"), "microdata")
        assert (await looked_at(page_on(other), home=sandbox.url)).error == "ADDRESS_REFUSED"
        assert other.visits == []


async def test_a_page_that_the_parser_cannot_take_is_no_price_in_the_end() -> None:
    """Q6, F15: it is tried again, and then the quote goes on without it."""
    async with SourceServer().running() as shop:
        url = shop.serve(reopened(MEGABYTES).encode(), content_type="text/html")
        with pytest.raises(Transient):
            await looked_at(url, home=shop.url)
        found = await looked_at(url, home=shop.url, patient=False)
        assert (found.error, found.price) == ("PAGE_UNREADABLE", Decimal("5.00"))


async def test_a_shop_whose_lane_has_no_place_is_waited_for_and_a_parked_one_is_away() -> None:
    """Q2, Q6: a busy shop costs the quote no try; a parked one delays it, and then the quote goes
    on without its page."""
    lanes: list[Lane] = []

    @contextlib.asynccontextmanager
    async def refused(lane: Lane, *, is_parked: bool) -> AsyncIterator[None]:
        lanes.append(lane)
        if lane.name:
            raise LaneBusy("no place", retry_after=5.0, is_parked=is_parked)
        yield

    busy, parked = partial(refused, is_parked=False), partial(refused, is_parked=True)
    async with SourceServer().running() as shop:
        look = partial(looked_at, page_on(shop), home=shop.url)
        for patient in (True, False):
            with pytest.raises(LaneBusy):
                await look(patient=patient, in_lane=busy)
        with pytest.raises(Transient, match="no place") as caught:
            await look(in_lane=parked)
        assert caught.value.code == "PAGE_AWAY"
        found = await look(patient=False, in_lane=parked)
        assert (found.error, found.price) == ("LANE_BUSY", Decimal("5.00"))
        assert shop.visits == []
        assert {lane.name for lane in lanes} == {f"shop:{shop.url.removeprefix('http://')}"}


async def looked_at(
    url: str, *, home: str, patient: bool = True, in_lane: InLane = without_lane
) -> Evidence:
    product_pages = HttpProductPages(5.0, currency="BRL", home=home, accept_listing=True)
    try:
        product = Product(position=1, title="t", source="s", url=url, listed_price=Decimal("5.00"))
        return await product_pages.look(product, in_lane, patient=patient)
    finally:
        await product_pages.close()


def page_on(server: SourceServer) -> str:
    async def answer(visit: Visit) -> None:
        page = b'<b itemprop="price">R$ 7,50</b>'
        await visit.head(content_length=len(page), content_type="text/html")
        await visit.send(page)

    return server.on("/product", answer)


def test_with_a_key_the_sandbox_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invented prices never mix with real ones."""
    sandbox = "http://127.0.0.1:8100"
    assert {url.startswith(sandbox) for url in QuotesSettings().base_urls(sandbox)} == {True}
    monkeypatch.setenv("REGENTE_QUOTES_ANTHROPIC_KEY", "sk-very-secret")
    real = QuotesSettings()
    assert real.base_urls(sandbox) == (
        "https://api.anthropic.com",
        "https://serpapi.com",
        "https://fipe.parallelum.com.br/api/v2",
    )
    assert "sk-very-secret" not in repr(real)
    assert real.mask()("a sk-very-secret b") == "a [secret] b"
    monkeypatch.setenv("REGENTE_QUOTES_FIPE_URL", "http://fipe.example/v1/")
    assert QuotesSettings().base_urls(sandbox)[2] == "http://fipe.example/v1"
