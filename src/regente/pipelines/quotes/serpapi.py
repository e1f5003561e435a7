"""The shopping search by SerpAPI's Google Shopping. It takes its key in the query only: the `Http`
in use must mask it."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from urllib.parse import urlencode

from pydantic import BaseModel, Field, SecretStr

from regente.engine.errors import Fatal
from regente.http_client.client import HttpClient
from regente.http_client.task_errors import as_task_errors
from regente.pipelines.quotes.models import MAX_PRICE, Found, Product
from regente.pipelines.quotes.providers import idempotent


class Hit(BaseModel):
    position: int | None = None
    title: str = ""
    link: str | None = None
    product_link: str | None = None
    product_id: str | None = None
    source: str = ""
    extracted_price: float | None = None


class Answer(BaseModel):
    error: str | None = None
    shopping_results: list[Hit] = Field(default_factory=list)


class SerpApiShopping:
    def __init__(
        self, http: HttpClient, base_url: str, key: SecretStr | None, *, country: str, language: str
    ) -> None:
        self._http = http
        self._url = f"{base_url}/search.json"
        self._key = key
        self._locale = {"gl": country, "hl": language}

    async def search(self, query: str, key: str) -> Found:
        params = {"engine": "google_shopping", "q": query, **self._locale}
        if self._key is not None:
            params["api_key"] = self._key.get_secret_value()
        with as_task_errors():
            answer = await self._http.call(
                "GET", f"{self._url}?{urlencode(params)}", headers=idempotent(key), answer=Answer
            )
        products = [_product(number, hit) for number, hit in enumerate(answer.shopping_results, 1)]
        if not products:
            raise Fatal(
                f"no offers of {query!r}: {answer.error or 'no results'}", code="NOTHING_FOUND"
            )
        return Found(query=query, provider="serpapi", products=products)


def _product(number: int, hit: Hit) -> Product:
    return Product(
        position=number,
        title=hit.title[:500],
        source=hit.source[:200] or "unknown",
        url=hit.link or hit.product_link,
        listed_price=_price(hit.extracted_price),
        product_id=hit.product_id,
    )


def _price(value: float | None) -> Decimal | None:
    try:
        price = Decimal(str(value)).quantize(Decimal("0.01")) if value is not None else None
    except InvalidOperation:
        return None
    return price if price is not None and 0 < price < MAX_PRICE else None
