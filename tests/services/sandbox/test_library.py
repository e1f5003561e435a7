"""O21: a real web site with sessions, pages and known totals."""

from __future__ import annotations

import json

import httpx2
from selectolax.lexbor import LexborHTMLParser

from regente.services.sandbox import FaultKind, Sandbox
from tests.services.filters import filters
from tests.services.sandbox.conftest import Visitor

SEARCH = "/ads?start=2025-01-10&end=2025-01-14&format=all&languages=pt,en&per_page=30"


async def test_pages_hold_every_ad_once_in_order(sandbox: Sandbox, visitor: Visitor) -> None:
    wanted, found, path = filters("2025-01-10", "2025-01-14", languages=("pt", "en")), [], SEARCH
    while path:
        tree = LexborHTMLParser((await visitor.get(path)).text)
        found += [node.attributes["data-id"] for node in tree.css("article.ad")]
        link = tree.css_first("a[rel=next]")
        path = str(link.attributes["href"]) if link else ""
    assert found == [ad.id for ad in sandbox.catalogue.ads(wanted)]
    assert len(found) == sandbox.total(wanted) > 30


async def test_all_ads_of_a_filter_can_be_downloaded_as_json_whole_or_half(
    sandbox: Sandbox,
) -> None:
    async with httpx2.AsyncClient(base_url=sandbox.library_url) as client:
        path = SEARCH.replace("/ads?", "/ads.json?")
        whole = (await client.get(path)).content
        wanted = filters("2025-01-10", "2025-01-14", languages=("pt", "en"))
        assert json.loads(whole) == {"ads": [ad.as_dict() for ad in sandbox.catalogue.ads(wanted)]}
        sandbox.break_with(FaultKind.TRUNCATED, path="/ads.json")
        half = await client.get(path)
    assert (half.status_code, half.content) == (200, whole[: len(whole) // 2])


async def test_the_total_can_be_asked_for(sandbox: Sandbox) -> None:
    async with httpx2.AsyncClient(base_url=sandbox.library_url) as client:
        answer = await client.get("/known-total?start=2025-01-10&end=2025-01-14&languages=pt,en")
    assert answer.json() == {
        "total": sandbox.total(filters("2025-01-10", "2025-01-14", languages=("pt", "en")))
    }


async def test_ads_need_a_session_and_the_proxy_that_it_was_opened_through(
    sandbox: Sandbox, visitor: Visitor
) -> None:
    cookie = visitor.http.cookies.get("library_session")
    other = Visitor(sandbox.library_url, sandbox.proxies[1])
    assert (await other.get(SEARCH)).status_code == 403
    other.http.cookies.set("library_session", str(cookie), domain="127.0.0.1")
    assert (await other.get(SEARCH)).status_code == 403
    assert (await visitor.get(SEARCH)).status_code == 200
    await other.http.close()


async def test_a_search_that_makes_no_sense_is_refused(visitor: Visitor) -> None:
    for wrong in (
        "start=x&end=y",
        "start=2025-01-02&end=2025-01-01",
        "start=2020-01-01&end=2025-01-01",
        "page=0",
        "page=x",
    ):
        query = wrong if "start" in wrong else f"start=2025-01-01&end=2025-01-01&{wrong}"
        assert (await visitor.get(f"/ads?languages=pt&{query}")).status_code == 400, wrong
