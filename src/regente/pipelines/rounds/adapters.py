"""`SiteAdapter`: what Regente has to know of a league's web site, and helpers to write one.

An adapter finds the round's page and turns pages into plain values. It validates nothing: the
values are checked against the models in `models.py`, for every site alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from selectolax.lexbor import LexborHTMLParser, LexborNode

from regente.engine.errors import Fatal, Transient


class LayoutChanged(Fatal):
    """An element that every page of the site has is not there."""

    code = "LAYOUT_CHANGED"


class InvalidData(Fatal):
    """A value is missing, or is not what it has to be."""

    code = "INVALID_DATA"


class AdapterFailed(Fatal):
    """The adapter raised an error of its own, or returned no values."""

    code = "ADAPTER_FAILED"


class PageIncomplete(Transient):
    """The page is cut off: it does not show that the layout has changed."""

    code = "PAGE_INCOMPLETE"


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it came, its address after redirects, and what was asked for."""

    html: str
    url: str
    league: str
    round: int | None  # of a round's page

    @property
    def root(self) -> LexborNode:
        root = LexborHTMLParser(self.html).root
        if root is None:
            raise PageIncomplete("the page is empty")
        return root


@runtime_checkable
class SiteAdapter(Protocol):
    """A league's web site."""

    leagues: Sequence[str]
    """Names of leagues that it has, as patterns: `cup-*`."""
    base_url: str
    """Pages of other sites are not fetched. `{sandbox}` stands for REGENTE_SANDBOX_URL."""

    def round_url(self, league: str, number: int) -> str:
        """The address of a round's page, relative to `base_url`."""

    def discover(self, page: Page) -> Mapping[str, Any]:
        """The matches of a round's page: the fields of `RoundSheet`."""

    def parse(self, page: Page) -> Mapping[str, Any]:
        """A match's page: the fields of `MatchSheet`, before its end those of `Fixture`."""


def required(node: LexborNode, selector: str) -> LexborNode:
    found = node.css_first(selector)
    if found is None:
        raise LayoutChanged(f"the page has no {selector}", details={"missing": selector})
    return found


def attribute(node: LexborNode, name: str) -> str | None:
    return node.attributes.get(name)


def text(node: LexborNode | None) -> str | None:
    """Its text with single spaces."""
    return None if node is None else " ".join(node.text().split())


def digits(value: str | None) -> str | None:
    """The digits of a number with thousands separators, like 41.204."""
    return None if value is None else "".join(value.split()).replace(".", "").replace(",", "")
