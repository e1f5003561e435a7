"""Parses a result page of the ad library. Unknown markup is an error, never a page without ads."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, LexborNode

from regente.contracts.worker import Cause
from regente.services.worker.source import Ad, Page, SourceFailed

MAX_DIGITS = 15


def parse_page(html: bytes) -> Page:
    tree = LexborHTMLParser(html.decode("utf-8", errors="replace"))
    library, navigation = tree.css_first("main#library"), tree.css_first("nav")
    if library is None or navigation is None:
        missing = "list of ads" if library is None else "navigation"
        raise _changed(f"the page has no {missing}: it was cut off, or its layout changed")
    link = navigation.css_first('a[rel="next"]')
    ads = [_ad(node) for node in library.css("article.ad")]
    total = _number(library.attributes.get("data-total"), "total")
    if total and not ads:
        raise _changed(f"the page declares {total} ads and shows none")
    return Page(ads, total, link.attributes.get("href") if link else None)


def _ad(node: LexborNode) -> Ad:
    ad_id = node.attributes.get("data-id")
    started = _child(node, "time").attributes.get("datetime")
    if not ad_id or not started:
        raise _changed("an ad has no id or no date")
    return {
        "id": ad_id,
        "page_name": _child(node, "h2.advertiser").text(),
        "text": _child(node, "p.text").text(),
        "format": node.attributes.get("data-format"),
        "language": node.attributes.get("lang"),
        "started_on": started,
        "qtd_ads": _number(_child(node, "span.count b").text(), "number of ads"),
    }


def _child(node: LexborNode, selector: str) -> LexborNode:
    found = node.css_first(selector)
    if found is None:
        raise _changed(f"an ad has no {selector}")
    return found


def _number(text: str | None, what: str) -> int:
    if text is None or len(text) > MAX_DIGITS or not (text.isascii() and text.isdigit()):
        raise _changed(f"the {what} is not a number")
    return int(text)


def _changed(message: str) -> SourceFailed:
    # A page that was cut off looks the same; a second read tells them apart.
    return SourceFailed(Cause.LAYOUT, message, transient=True)
