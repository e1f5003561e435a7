"""Extracts a product page's price, from JSON-LD, meta tags, microdata or text, in this order.

A price has the currency that is written with it, else that of its markup, else that of the page's
other prices, first of those of the same amount. None means that the page names no currency.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from price_parser import Price
from selectolax.lexbor import LexborHTMLParser, LexborNode

from regente.pipelines.quotes.currencies import currency_of
from regente.pipelines.quotes.models import MAX_EXCERPT_CHARACTERS, MAX_PRICE, Method

MAX_DEPTH = 8
MAX_PLACES = 50
MAX_PRICES = 200
MAX_PRICE_CHARACTERS = 200
"""Of a text in which a price is looked for: the parser's time is quadratic in its digits."""
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_MARKED = re.compile(r"(?<![A-Za-z])(?:R\$|US\$|€|£)\s*[0-9][0-9.,]*")
_PRODUCT_TYPES = {"product", "productgroup", "individualproduct", "productmodel"}
_PRICE_FIELDS = ("price", "lowPrice")
_META = ("product:price", "og:price")
_LIKELY = (
    "[class*='price'], [class*='Price'], [class*='preco'], [class*='Preco'], [id*='price'], "
    "[id*='preco']"
)
_CROSSED_OUT = re.compile(
    r"old|list|from|strike|antig|riscad|parcel|installment|shipping|frete", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class PagePrice:
    amount: Decimal
    currency: str | None
    method: Method
    excerpt: str


def read_price(html: str, currency: str = "BRL") -> PagePrice | None:
    """The first price. If it is in another currency, the first one in the wanted currency is
    taken, if the page has one."""
    tree = LexborHTMLParser(html)
    readers = (_from_json_ld, _from_meta, _from_microdata, _from_text)
    prices = (price for reader in readers for price in reader(tree, currency))
    first = next(prices, None)
    if first is None or first.currency == currency:
        return first
    others = [price for price in islice(prices, MAX_PRICES) if price.currency is not None]
    if first.currency is None:
        alike = sorted(others, key=lambda other: other.amount != first.amount)
        return replace(first, currency=alike[0].currency) if alike else first
    return next((price for price in others if price.currency == currency), first)


def _from_json_ld(tree: LexborHTMLParser, wanted: str) -> Iterator[PagePrice]:
    for script in tree.css("script[type='application/ld+json']"):
        try:
            document = json.loads(script.text(deep=True))
        except (ValueError, RecursionError):
            continue
        for offer, unit in _offers(document, None, inside_product=False, depth=0):
            amount, written = _amount(offer.get("price", offer.get("lowPrice")))
            if amount is not None:
                currency = currency_of(_unit(written, unit), wanted)
                yield PagePrice(amount, currency, Method.JSON_LD, _cut(json.dumps(offer)))


def _offers(
    node: Any, unit: Any, *, inside_product: bool, depth: int
) -> Iterator[tuple[dict[str, Any], Any]]:
    """The offers of products with their `priceCurrency`, which may be that of the offer around
    them; a page may also have offers of deliveries or lists of others."""
    if depth > MAX_DEPTH:
        return
    children: list[Any] = []
    inside = inside_product
    if isinstance(node, list):
        children = node
    elif isinstance(node, dict):
        unit = node.get("priceCurrency") or unit
        if inside_product and not node.keys().isdisjoint(_PRICE_FIELDS):
            yield node, unit
        inside = inside_product or bool(_types(node) & _PRODUCT_TYPES)
        fields = [
            *(("offers",) if inside else ()),
            *(("priceSpecification",) if inside_product else ()),
        ]
        children = [node.get(name) for name in (*fields, "@graph", "mainEntity")]
    for child in children:
        yield from _offers(child, unit, inside_product=inside, depth=depth + 1)


def _types(node: dict[str, Any]) -> set[str]:
    declared = node.get("@type")
    return {
        str(one).rpartition("/")[2].lower()
        for one in (declared if isinstance(declared, list) else [declared])
    }


def _from_meta(tree: LexborHTMLParser, wanted: str) -> Iterator[PagePrice]:
    for name in _META:
        for node in tree.css(f"meta[property='{name}:amount'], meta[name='{name}:amount']"):
            unit = _first(
                tree,
                f"meta[property='{name}:currency'], meta[name='{name}:currency']",
                "meta[property$=':price:currency'], meta[name$=':price:currency']",
            )
            amount, written = _amount(node.attributes.get("content"))
            if amount is not None:
                declared = unit.attributes.get("content") if unit else None
                currency = currency_of(_unit(written, declared), wanted)
                yield PagePrice(amount, currency, Method.META, _cut(node.html or ""))


def _from_microdata(tree: LexborHTMLParser, wanted: str) -> Iterator[PagePrice]:
    of_page = tree.css_first("[itemprop='priceCurrency']")
    for node in tree.css("[itemprop='price'], [itemprop='lowPrice']"):
        amount, written = _amount(node.attributes.get("content") or node.text())
        if amount is not None:
            unit = _unit_around(node) or of_page
            declared = (unit.attributes.get("content") or unit.text()) if unit else None
            sign = written or _sign(node.text()) or _sign(node.parent.text() if node.parent else "")
            currency = currency_of(_unit(sign, declared), wanted)
            yield PagePrice(amount, currency, Method.MICRODATA, _cut(node.html or ""))


def _unit_around(node: LexborNode) -> LexborNode | None:
    """The `priceCurrency` of the offer that the price is in: a page may list several."""
    around = node.parent
    for _ in range(MAX_DEPTH):
        if around is None:
            return None
        if unit := around.css_first("[itemprop='priceCurrency']"):
            return unit
        around = around.parent
    return None


def _first(tree: LexborHTMLParser, *selectors: str) -> LexborNode | None:
    return next((node for one in selectors if (node := tree.css_first(one))), None)


def _from_text(tree: LexborHTMLParser, wanted: str) -> Iterator[PagePrice]:
    """Prices in elements with a price's class or id, except old prices and installments."""
    for node in tree.css(_LIKELY)[:MAX_PLACES]:
        text = " ".join(node.text(separator=" ").split())
        if not text or _CROSSED_OUT.search(_labels(node)) or re.search(r"[0-9]\s*x\s", text):
            continue
        for marked in _MARKED.findall(text)[:MAX_PLACES] or [text]:
            amount, written = _amount(marked)
            if amount is not None and written:
                yield PagePrice(amount, currency_of(written, wanted), Method.TEXT, _cut(text))


def _labels(node: LexborNode) -> str:
    return f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}"


def _amount(value: Any) -> tuple[Decimal | None, str | None]:
    """The amount, and the currency that is written with it; a plain number has a decimal point, as
    in schema.org, other texts are parsed."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = str(value) if is_number else value if isinstance(value, str) else ""
    text = text.strip()[:MAX_PRICE_CHARACTERS]
    try:
        found = None if _NUMBER.fullmatch(text) else price_in(text)
        amount = Decimal(text) if found is None else found.amount
    except InvalidOperation:
        return None, None
    written = None if found is None else found.currency
    return (amount, written) if amount is not None and 0 < amount < MAX_PRICE else (None, None)


def _sign(text: str) -> str | None:
    return price_in(text.strip()).currency


def _unit(written: str | None, declared: Any) -> Any:
    """The currency that is written with the price, unless it is only `$`, which the markup may
    explain."""
    return (declared or written) if written in (None, "$") else written


def price_in(text: str, **hints: str) -> Price:
    return Price.fromstring(text[:MAX_PRICE_CHARACTERS], **hints)


def _cut(text: str) -> str:
    return " ".join(text.split())[:MAX_EXCERPT_CHARACTERS]
