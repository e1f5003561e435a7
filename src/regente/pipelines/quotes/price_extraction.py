"""Extracts a product page's price, from JSON-LD, meta tags, microdata or text, in this order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from price_parser import Price
from selectolax.lexbor import LexborHTMLParser, LexborNode

from regente.pipelines.quotes.models import MAX_EXCERPT_CHARACTERS, MAX_PRICE, Method

SYMBOLS = {"R$": "BRL", "US$": "USD", "$": "USD", "€": "EUR", "£": "GBP"}
MAX_DEPTH = 8
MAX_PLACES = 50
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_MARKED = re.compile(r"(?:R\$|US\$|€|£)\s*[0-9][0-9.,]*")
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


def read_price(html: str) -> PagePrice | None:
    tree = LexborHTMLParser(html)
    readers = (_from_json_ld, _from_meta, _from_microdata, _from_text)
    return next((price for reader in readers for price in reader(tree)), None)


def _from_json_ld(tree: LexborHTMLParser) -> Iterator[PagePrice]:
    for script in tree.css("script[type='application/ld+json']"):
        try:
            document = json.loads(script.text(deep=True))
        except (ValueError, RecursionError):
            continue
        for offer in _offers(document, inside_product=False, depth=0):
            amount = _amount(offer.get("price", offer.get("lowPrice")))
            if amount is not None:
                yield PagePrice(
                    amount,
                    _currency(offer.get("priceCurrency")),
                    Method.JSON_LD,
                    _cut(json.dumps(offer)),
                )


def _offers(node: Any, *, inside_product: bool, depth: int) -> Iterator[dict[str, Any]]:
    """The offers of products; a page may also have offers of deliveries or lists of others."""
    if depth > MAX_DEPTH:
        return
    children: list[Any] = []
    inside = inside_product
    if isinstance(node, list):
        children = node
    elif isinstance(node, dict):
        if inside_product and not node.keys().isdisjoint(_PRICE_FIELDS):
            yield node
        inside = inside_product or bool(_types(node) & _PRODUCT_TYPES)
        fields = [
            *(("offers",) if inside else ()),
            *(("priceSpecification",) if inside_product else ()),
        ]
        children = [node.get(name) for name in (*fields, "@graph", "mainEntity")]
    for child in children:
        yield from _offers(child, inside_product=inside, depth=depth + 1)


def _types(node: dict[str, Any]) -> set[str]:
    declared = node.get("@type")
    return {
        str(one).rpartition("/")[2].lower()
        for one in (declared if isinstance(declared, list) else [declared])
    }


def _from_meta(tree: LexborHTMLParser) -> Iterator[PagePrice]:
    for name in _META:
        for node in tree.css(f"meta[property='{name}:amount'], meta[name='{name}:amount']"):
            unit = tree.css_first(f"meta[property='{name}:currency'], meta[name='{name}:currency']")
            amount = _amount(node.attributes.get("content"))
            if amount is not None:
                currency = _currency(unit.attributes.get("content")) if unit else None
                yield PagePrice(amount, currency, Method.META, _cut(node.html or ""))


def _from_microdata(tree: LexborHTMLParser) -> Iterator[PagePrice]:
    unit = tree.css_first("[itemprop='priceCurrency']")
    currency = _currency(unit.attributes.get("content") or unit.text()) if unit else None
    for node in tree.css("[itemprop='price'], [itemprop='lowPrice']"):
        amount = _amount(node.attributes.get("content") or node.text())
        if amount is not None:
            yield PagePrice(amount, currency, Method.MICRODATA, _cut(node.html or ""))


def _from_text(tree: LexborHTMLParser) -> Iterator[PagePrice]:
    """Prices in elements with a price's class or id, except old prices and installments."""
    for node in tree.css(_LIKELY)[:MAX_PLACES]:
        text = " ".join(node.text(separator=" ").split())
        if not text or _CROSSED_OUT.search(_labels(node)) or re.search(r"[0-9]\s*x\s", text):
            continue
        marked = _MARKED.search(text)
        found = Price.fromstring(marked.group() if marked else text)
        if found.amount is not None and found.currency and 0 < found.amount < MAX_PRICE:
            yield PagePrice(found.amount, _currency(found.currency), Method.TEXT, _cut(text))


def _labels(node: LexborNode) -> str:
    return f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}"


def _amount(value: Any) -> Decimal | None:
    """The amount; a plain number has a decimal point, as in schema.org, other texts are parsed."""
    text = (
        str(value).strip()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else ""
    )
    try:
        amount = Decimal(text) if _NUMBER.fullmatch(text) else Price.fromstring(text).amount
    except InvalidOperation:
        return None
    return amount if amount is not None and 0 < amount < MAX_PRICE else None


def _currency(value: Any) -> str | None:
    text = str(value).strip() if isinstance(value, str) else ""
    return SYMBOLS.get(text) or (text.upper() if re.fullmatch(r"[A-Za-z]{3}", text) else None)


def _cut(text: str) -> str:
    return " ".join(text.split())[:MAX_EXCERPT_CHARACTERS]
