"""Fetches product pages and extracts their prices; a page without a price is evidence, too."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from regente.address_guard import AddressRefused, GuardedTransport, check_url, origin_of
from regente.engine.errors import Transient
from regente.http_client.client import TRANSIENT, CallFailed, CallFailure, HttpClient, WebPage
from regente.pipelines.quotes.models import Evidence, Method, Product
from regente.pipelines.quotes.price_extraction import PagePrice, read_price

HEADERS = {
    "accept": "text/html,application/xhtml+xml",
    "user-agent": "Mozilla/5.0 (compatible; Regente/0.1)",
}
SMALL_PAGE_CHARACTERS = 100_000
MAX_CONNECTIONS = 200


class HttpProductPages:
    """Reads product pages. `home` is the search's URL, whose pages may have private addresses.

    Links come from third parties: a guarded transport checks the address of every connection, also
    after a redirect, so that no link reaches the private network.
    """

    def __init__(
        self,
        timeout_seconds: float,
        mask: Callable[[str], str] = str,
        *,
        currency: str,
        home: str,
        accept_listing: bool,
    ) -> None:
        self._home = origin_of(home)
        guard = GuardedTransport(
            allow_private=False, connections=MAX_CONNECTIONS, trusted=frozenset({self._home})
        )
        self._http = HttpClient(timeout_seconds, mask, guard)
        self._currency = currency
        self._accept_listing = accept_listing

    async def close(self) -> None:
        await self._http.close()

    async def look(self, product: Product, *, patient: bool) -> Evidence:
        if product.url is None:
            return self._without_price(product, "NO_PAGE")
        try:
            self._check(product.url)
            page = await self._http.page(product.url, headers=HEADERS)
        except AddressRefused:
            return self._without_price(product, "ADDRESS_REFUSED")
        except CallFailed as failed:
            if patient and failed.failure in (*TRANSIENT, CallFailure.THROTTLED):
                raise Transient(
                    f"the page of product {product.position}: {failed.message}", code="PAGE_AWAY"
                ) from failed
            return self._without_price(
                product, f"HTTP_{failed.status or failed.failure.value.upper()}"
            )
        return self._read(product, page, await _price_on(page.text))

    def _read(self, product: Product, page: WebPage, found: PagePrice | None) -> Evidence:
        digest = hashlib.sha256(page.text.encode()).hexdigest()
        if found is None:
            return self._without_price(product, "NO_PRICE", page_sha256=digest)
        if found.currency is not None and found.currency != self._currency:
            return self._without_price(
                product, "OTHER_CURRENCY", page_sha256=digest, excerpt=found.excerpt
            )
        return _evidence(
            product,
            url=page.url,
            price=found.amount,
            currency=self._currency,
            method=found.method,
            excerpt=found.excerpt,
            page_sha256=digest,
        )

    def _without_price(self, product: Product, error: str, **seen: Any) -> Evidence:
        """Evidence without a price of the page; with the listed price, if settings accept it."""
        if self._accept_listing and product.listed_price is not None:
            seen |= {
                "price": product.listed_price,
                "currency": self._currency,
                "method": Method.LISTING,
            }
        return _evidence(product, error=error, **seen)

    def _check(self, url: str) -> None:
        """Check the URL before its name is resolved."""
        check_url(url, allow_private=True)
        if origin_of(url) != self._home:
            check_url(url, allow_private=False)


async def _price_on(html: str) -> PagePrice | None:
    """The page's price; large pages are parsed in a thread."""
    return (
        read_price(html)
        if len(html) < SMALL_PAGE_CHARACTERS
        else await asyncio.to_thread(read_price, html)
    )


def _evidence(product: Product, **seen: Any) -> Evidence:
    about = {
        "position": product.position,
        "source": product.source,
        "title": product.title,
        "url": product.url,
    }
    return Evidence(**{**about, "fetched_at": datetime.now(UTC), **seen})
