"""The library's HTML, in its usual layout and after a redesign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from regente.services.sandbox.catalogue import Ad


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """One page of the results."""

    ads: Sequence[Ad]
    total: int
    page: int
    next_url: str | None


def results_page(content: ResultsPage) -> str:
    following = (
        f'<a rel="next" href="{escape(content.next_url)}">Next</a>'
        if content.next_url
        else "<span>The end</span>"
    )
    articles = "\n".join(map(_article, content.ads))
    return _document(
        f'<main id="library" data-total="{content.total}" '
        f'data-page="{content.page}">\n{articles}\n</main>\n<nav>{following}</nav>'
    )


def redesigned_page(content: ResultsPage) -> str:
    """The same data in a different layout."""
    cards = "\n".join(
        f'<div class="x1 x9f"><b>{escape(ad.page_name)}</b><i>{escape(ad.text)}</i></div>'
        for ad in content.ads
    )
    return _document(f'<section class="x0 xq3">{cards}</section>')


def plain_page(title: str, message: str) -> str:
    return _document(f"<h1>{escape(title)}</h1><p>{escape(message)}</p>")


def _article(ad: Ad) -> str:
    return (
        f'<article class="ad" data-id="{ad.id}" data-format="{ad.format}" lang="{ad.language}">'
        f'<h2 class="advertiser">{escape(ad.page_name)}</h2><p '
        f'class="text">{escape(ad.text, quote=False)}</p>'
        f'<time datetime="{ad.started_on}">Started running on {ad.started_on}</time>'
        f'<span class="count"><b>{ad.qtd_ads}</b> ads use this text</span></article>'
    )


def _document(body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>Ad '
        f"library</title></head>\n<body>\n{body}\n</body></html>\n"
    )
