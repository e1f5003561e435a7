"""The shopping search by SerpAPI's Google Shopping, and the shops' pages by its Immersive Product.

The search's answers link to Google's pages only; with a hit's token the second API returns the
shops and their own pages. SerpAPI takes its key in the query only: the `Http` in use must mask it.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, Field, SecretStr

from regente.engine.errors import Fatal
from regente.engine.lanes import LaneLimits
from regente.http_client.client import TRANSIENT, CallFailed, CallFailure, HttpClient
from regente.http_client.lanes import lane_of
from regente.http_client.task_errors import as_task_errors, task_error
from regente.pipelines.quotes.currencies import currency_of
from regente.pipelines.quotes.models import MAX_PRICE, Found, Product
from regente.pipelines.quotes.price_extraction import price_in
from regente.pipelines.quotes.providers import idempotent

_GOOGLE = re.compile(r"(^|\.)google(\.[a-z]{2,3}){1,2}$")
_PASSING = (*TRANSIENT, CallFailure.THROTTLED, CallFailure.PROTOCOL)


class ListedPrice(BaseModel):
    price: str | None = None
    extracted_price: float | None = None
    currency: str | None = None


class Hit(ListedPrice):
    position: int | None = None
    title: str = ""
    link: str | None = None
    product_link: str | None = None
    product_id: str | None = None
    immersive_product_page_token: str | None = None
    source: str = ""
    alternative_price: ListedPrice | None = None


class Answer(BaseModel):
    error: str | None = None
    shopping_results: list[Hit] = Field(default_factory=list, fail_fast=True)


class Store(ListedPrice):
    name: str = ""
    link: str | None = None


class ProductResults(BaseModel):
    stores: list[Store] = Field(default_factory=list, fail_fast=True)


class ProductAnswer(BaseModel):
    error: str | None = None
    product_results: ProductResults = Field(default_factory=ProductResults)


class SerpApiShopping:
    def __init__(
        self,
        http: HttpClient,
        base_url: str,
        key: SecretStr | None,
        *,
        country: str,
        language: str,
        currency: str,
        honours_keys: bool = False,
        limits: LaneLimits | None = None,
    ) -> None:
        self.lane = lane_of("search", base_url, limits)
        self.honours_keys = honours_keys  # the provider's own API documents none
        self._http = http
        self._url = f"{base_url}/search.json"
        self._key = key
        self._locale = {"gl": country, "hl": language}
        self._currency = currency

    async def search(self, query: str, key: str) -> Found:
        with as_task_errors(patient=False):
            answer = await self._http.call(
                "GET",
                self._address(engine="google_shopping", q=query, **self._locale),
                headers=idempotent(key),
                answer=Answer,
            )
        hits = enumerate(answer.shopping_results, 1)
        products = [self._product(number, hit) for number, hit in hits]
        if not products:
            raise Fatal(
                f"no offers of {query!r}: {answer.error or 'no results'}", code="NOTHING_FOUND"
            )
        return Found(query=query, provider="serpapi", products=products)

    async def with_page(self, product: Product, key: str, *, patient: bool) -> Product:
        if product.lookup_id is None:
            return product
        address = self._address(
            engine="google_immersive_product", page_token=product.lookup_id, more_stores="true"
        )
        try:
            answer = await self._http.call(
                "GET", address, headers=idempotent(key), answer=ProductAnswer
            )
        except CallFailed as failed:
            if patient and failed.failure in _PASSING:
                raise task_error(failed, patient=False) from failed
            return product
        return self._at_its_shop(product, answer.product_results.stores)

    def _address(self, **params: str) -> str:
        if self._key is not None:
            params["api_key"] = self._key.get_secret_value()
        return f"{self._url}?{urlencode(params)}"

    def _product(self, number: int, hit: Hit) -> Product:
        price, currency = self._price_of(hit)
        return Product(
            position=number,
            title=hit.title[:500],
            source=hit.source[:200] or "unknown",
            url=_shop_page(hit.link),
            listed_price=price,
            listed_currency=currency,
            listing_url=hit.product_link or hit.link,
            lookup_id=hit.immersive_product_page_token,
            product_id=hit.product_id,
        )

    def _at_its_shop(self, product: Product, stores: list[Store]) -> Product:
        """The product with the page of its shop, or with another shop and its page and price."""
        there = [(store, page) for store in stores if (page := _shop_page(store.link))]
        own = [one for one in there if one[0].name.casefold() == product.source.casefold()]
        if own:
            return product.model_copy(update={"url": own[0][1]})
        if not there:
            return product
        store, page = there[0]
        price, currency = self._price_of(store)
        update = {
            "url": page,
            "source": store.name[:200] or product.source,
            "listed_price": price,
            "listed_currency": currency,
        }
        return product.model_copy(update=update)

    def _price_of(self, listed: ListedPrice) -> tuple[Decimal | None, str | None]:
        """The price and its currency; the alternative one, if it is in the quote's currency."""
        price, currency = _price(listed.extracted_price), self._currency_in(listed)
        other = listed.alternative_price if isinstance(listed, Hit) else None
        if other is not None and currency not in (None, self._currency):
            alternative = self._currency_in(other)
            if alternative == self._currency and other.extracted_price is not None:
                return _price(other.extracted_price), alternative
        return price, currency

    def _currency_in(self, listed: ListedPrice) -> str | None:
        written: Any = price_in(listed.price or "").currency or listed.currency
        return currency_of(written, self._currency)


def _shop_page(link: str | None) -> str | None:
    """The link, unless it leads to a page of the search engine."""
    if not link:
        return None
    try:
        host = urlsplit(link).hostname or ""
    except ValueError:
        return link  # refused, with this reason, where it would be read
    return None if _GOOGLE.search(host) else link


def _price(value: float | None) -> Decimal | None:
    try:
        price = Decimal(str(value)).quantize(Decimal("0.01")) if value is not None else None
    except InvalidOperation:
        return None
    return price if price is not None and 0 < price < MAX_PRICE else None
