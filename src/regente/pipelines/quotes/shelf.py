"""Looks at one product's page and says what it found there. A page without a price is evidence, too."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from regente.engine.errors import Transient
from regente.outgoing.http import PASSING, CallFailed, Http, Page, Trouble
from regente.pipelines.quotes.models import Evidence, Method, Product
from regente.pipelines.quotes.pages import PagePrice, read_price

HEADERS = {"accept": "text/html,application/xhtml+xml", "user-agent": "Mozilla/5.0 (compatible; Regente/0.1)"}
SMALL_PAGE_CHARACTERS = 100_000


class PageShelf:
    """`home` is the host of the search itself, whose pages may lie on this machine: the sandbox's do."""

    def __init__(self, http: Http, *, currency: str, home: str, accept_listing: bool) -> None:
        self._http = http
        self._currency = currency
        self._home = urlsplit(home).hostname
        self._accept_listing = accept_listing

    async def look(self, product: Product, *, patient: bool) -> Evidence:
        if product.url is None:
            return self._without_price(product, "NO_PAGE")
        if not self._is_public(product.url):
            return self._without_price(product, "ADDRESS_REFUSED")
        try:
            page = await self._http.page(product.url, headers=HEADERS)
        except CallFailed as failed:
            if patient and failed.trouble in (*PASSING, Trouble.THROTTLED):
                raise Transient(f"the page of product {product.position}: {failed.message}", code="PAGE_AWAY") from failed
            return self._without_price(product, f"HTTP_{failed.status or failed.trouble.value.upper()}")
        return self._read(product, page, await _price_on(page.text))

    def _read(self, product: Product, page: Page, found: PagePrice | None) -> Evidence:
        digest = hashlib.sha256(page.text.encode()).hexdigest()
        if found is None:
            return self._without_price(product, "NO_PRICE", page_sha256=digest)
        if found.currency is not None and found.currency != self._currency:
            return self._without_price(product, "OTHER_CURRENCY", page_sha256=digest, excerpt=found.excerpt)
        return _evidence(
            product, url=page.url, price=found.amount, currency=self._currency, method=found.method, excerpt=found.excerpt,
            page_sha256=digest,
        )  # fmt: skip

    def _without_price(self, product: Product, error: str, **seen: Any) -> Evidence:
        """The search's own answer had a price, perhaps: it counts, and the evidence says that it is no more than that."""
        if self._accept_listing and product.listed_price is not None:
            seen |= {"price": product.listed_price, "currency": self._currency, "method": Method.LISTING}
        return _evidence(product, error=error, **seen)

    def _is_public(self, url: str) -> bool:
        """Whoever fills in a shop's link must not make us ask our own network. Names are not resolved here."""
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not host:
            return False
        if host == self._home:
            return True
        try:
            return ipaddress.ip_address(host).is_global
        except ValueError:
            return "." in host and not host.endswith((".local", ".internal", ".localhost"))


async def _price_on(html: str) -> PagePrice | None:
    """A large page is read in a thread: others have their turn meanwhile."""
    return read_price(html) if len(html) < SMALL_PAGE_CHARACTERS else await asyncio.to_thread(read_price, html)


def _evidence(product: Product, **seen: Any) -> Evidence:
    about = {"position": product.position, "source": product.source, "title": product.title, "url": product.url}
    return Evidence(**{**about, "fetched_at": datetime.now(UTC), **seen})
