"""Fetches product pages and extracts their prices; a page without a price is evidence, too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from regente.address_guard import AddressRefused, GuardedTransport, check_url, origin_of
from regente.engine.errors import LaneBusy, TaskError, Transient
from regente.engine.lanes import LaneLimits
from regente.http_client.client import TRANSIENT, CallFailed, CallFailure, HttpClient, WebPage
from regente.http_client.lanes import InLane, lane_of
from regente.http_client.parsing import parse_page
from regente.http_client.task_errors import as_task_errors
from regente.pipelines.quotes.models import Evidence, Method, Product
from regente.pipelines.quotes.price_extraction import PagePrice, read_price
from regente.pipelines.quotes.screenshots import Screenshots

HEADERS = {
    "accept": "text/html,application/xhtml+xml",
    "user-agent": "Mozilla/5.0 (compatible; Regente/0.1)",
}
MAX_CONNECTIONS = 200
NO_PAGE = "NO_PAGE"
OTHER_CURRENCY = "OTHER_CURRENCY"


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
        screenshots: Screenshots | None = None,
        limits: LaneLimits | None = None,
    ) -> None:
        self._limits = limits
        self._home = origin_of(home)
        guard = GuardedTransport(
            allow_private=False, connections=MAX_CONNECTIONS, trusted=frozenset({self._home})
        )
        self._http = HttpClient(timeout_seconds, mask, guard)
        self._currency = currency
        self._accept_listing = accept_listing
        self._screenshots = screenshots

    async def close(self) -> None:
        await self._http.close()

    async def look(self, product: Product, in_lane: InLane, *, patient: bool) -> Evidence:
        if product.url is None:
            return self._without_price(product, NO_PAGE)
        try:
            self._check(product.url)
            page = await self._fetch(product.url, in_lane)
        except AddressRefused:
            return self._without_price(product, "ADDRESS_REFUSED")
        except TaskError as failed:
            if isinstance(failed, LaneBusy) and not failed.is_parked:
                raise
            if patient and _may_come_back(failed):
                raise Transient(
                    f"the page of product {product.position}: {failed.message}", code="PAGE_AWAY"
                ) from failed
            return self._without_price(product, failed.code)
        try:
            found = await parse_page(read_price, page.text, self._currency)
        except Transient:  # it takes the parser too much time or memory, or crashes it
            if patient:
                raise
            return self._without_price(product, "PAGE_UNREADABLE")
        return await self._with_screenshot(self._read(product, page, found), page)

    async def _with_screenshot(self, evidence: Evidence, page: WebPage) -> Evidence:
        """With an image of the page, if the evidence's price was read from it."""
        if self._screenshots is None or evidence.method in (None, Method.LISTING):
            return evidence
        png = await self._screenshots.take(page.text)
        return evidence.model_copy(update={"screenshot": png})

    async def _fetch(self, url: str, in_lane: InLane) -> WebPage:
        """The page, fetched in its shop's lane, which hears how that went."""
        async with in_lane(lane_of("shop", url, self._limits)):
            with as_task_errors():
                return await self._http.page(url, headers=HEADERS)

    def _read(self, product: Product, page: WebPage, found: PagePrice | None) -> Evidence:
        digest = hashlib.sha256(page.text.encode()).hexdigest()
        if found is None:
            return self._without_price(product, "NO_PRICE", page_sha256=digest)
        if found.currency is not None and found.currency != self._currency:
            return self._without_price(
                product,
                OTHER_CURRENCY,
                page_sha256=digest,
                excerpt=found.excerpt,
                details=_left_out(found.amount, found.currency, found.method),
            )
        assumed = {} if found.currency else {"currency": "the page names none"}
        return _evidence(
            product,
            url=page.url,
            price=found.amount,
            currency=self._currency,
            method=found.method,
            excerpt=found.excerpt,
            page_sha256=digest,
            details=assumed,
        )

    def _without_price(self, product: Product, error: str, **seen: Any) -> Evidence:
        """Evidence without a price of the page; with the listed price, if settings accept it and
        it is in the quote's currency."""
        listed, currency = product.listed_price, product.listed_currency or self._currency
        if listed is None:
            return _evidence(product, error=error, **seen)
        if currency != self._currency:
            details = seen.pop("details", None) or _left_out(listed, currency, Method.LISTING)
            error = OTHER_CURRENCY if error == NO_PAGE else error
            return _evidence(product, error=error, details=details, **seen)
        if self._accept_listing:
            seen |= {"price": listed, "currency": self._currency, "method": Method.LISTING}
        return _evidence(product, error=error, **seen)

    def _check(self, url: str) -> None:
        """Check the URL before its name is resolved."""
        check_url(url, allow_private=True)
        if origin_of(url) != self._home:
            check_url(url, allow_private=False)


def _may_come_back(failed: TaskError) -> bool:
    """Whether the shop is away for a while; so is one whose lane is parked."""
    cause = failed.__cause__
    if not isinstance(cause, CallFailed):
        return isinstance(failed, LaneBusy)
    return cause.failure in (*TRANSIENT, CallFailure.THROTTLED)


def _left_out(price: Decimal, currency: str, method: Method) -> dict[str, Any]:
    """The evidence of a price that does not count because it is in another currency."""
    return {"left_out": {"price": str(price), "currency": currency, "method": method.value}}


def _evidence(product: Product, **seen: Any) -> Evidence:
    about = {
        "position": product.position,
        "source": product.source,
        "title": product.title,
        "url": product.url or product.listing_url,
    }
    return Evidence(**{**about, "fetched_at": datetime.now(UTC), **seen})
