"""Parses the league's pages.

A missing element raises `LayoutChanged`, an element with a missing or invalid value `InvalidData`.
"""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import urljoin

from pydantic import BaseModel, ValidationError
from selectolax.lexbor import LexborHTMLParser, LexborNode

from regente.engine.errors import Fatal, Transient
from regente.pipelines.rounds.models import Fixture, MatchSheet, PlayState, RoundSheet

MAX_ERRORS = 20
MAX_SHOWN_CHARACTERS = 100

Model = TypeVar("Model", bound=BaseModel)


class LayoutChanged(Fatal):
    code = "LAYOUT_CHANGED"


class InvalidData(Fatal):
    code = "INVALID_DATA"


class PageIncomplete(Transient):
    code = "PAGE_INCOMPLETE"


def parse_round(html: str, url: str) -> RoundSheet:
    main = _required(_document(html), "main#round")
    listed = _required(main, "ol.matches")
    matches = [
        {"match_id": _attribute(one, "data-match-id"), "url": _link(one, url)}
        for one in listed.css("li.match")
    ]
    values = {
        "league": _attribute(main, "data-league"),
        "number": _attribute(main, "data-round"),
        "matches_said": _attribute(main, "data-matches"),
        "matches": matches,
    }
    return _checked(RoundSheet, values)


def parse_match(html: str) -> Fixture | MatchSheet:
    """The match; before its end only its fixture."""
    article = _required(_document(html), "article#match")
    values: dict[str, Any] = {
        "match_id": _attribute(article, "data-match-id"),
        "status": _attribute(article, "data-status"),
        "kickoff_at": _attribute(_required(article, "time.kickoff"), "datetime"),
    }
    fixture = _checked(Fixture, values)
    if fixture.status is not PlayState.FINISHED:
        return fixture
    events, stats = _required(article, "ol.events"), _required(article, "table.stats")
    teams = article.css("section.team")
    if not teams:
        raise LayoutChanged("the page has no section.team", details={"missing": "section.team"})
    attendance = article.css_first("span.attendance")
    return _checked(
        MatchSheet,
        values
        | {
            "venue": _text(article, "span.venue"),
            "attendance": _digits(attendance),
            "teams": [_team(one) for one in teams],
            "events_said": _attribute(events, "data-count"),
            "events": [_event(one) for one in events.css("li.event")],
            "stats_said": _attribute(stats, "data-count"),
            "stats": [_stat(one) for one in stats.css("tr.stat")],
        },
    )


def _document(html: str) -> LexborNode:
    # An incomplete page does not show that the layout has changed.
    if "</html>" not in html[-2000:].lower():
        raise PageIncomplete("the page does not end with </html>: it is incomplete or not a page")
    root = LexborHTMLParser(html).root
    if root is None:
        raise PageIncomplete("the page is empty")
    return root


def _team(node: LexborNode) -> dict[str, Any]:
    return {
        "side": _attribute(node, "data-side"),
        "slug": _attribute(node, "data-team"),
        "name": _text(node, "h2.name"),
        "goals": _text(node, "b.goals"),
    }


def _event(node: LexborNode) -> dict[str, Any]:
    return {
        "minute": _attribute(node, "data-minute"),
        "kind": _attribute(node, "data-kind"),
        "side": _attribute(node, "data-side"),
        "player": _text(node, "span.player"),
    }


def _stat(node: LexborNode) -> dict[str, Any]:
    return {
        "name": _attribute(node, "data-stat"),
        "side": _attribute(node, "data-side"),
        "value": _text(node, "td.value"),
    }


def _required(node: LexborNode, selector: str) -> LexborNode:
    found = node.css_first(selector)
    if found is None:
        raise LayoutChanged(f"the page has no {selector}", details={"missing": selector})
    return found


def _attribute(node: LexborNode, name: str) -> str | None:
    return node.attributes.get(name)


def _text(node: LexborNode, selector: str) -> str | None:
    found = node.css_first(selector)
    return None if found is None else " ".join(found.text().split())


def _digits(node: LexborNode | None) -> str | None:
    """The digits of a number with thousands separators, like 41.204."""
    return None if node is None else "".join(node.text().split()).replace(".", "")


def _link(node: LexborNode, url: str) -> str | None:
    anchor = node.css_first("a[href]")
    target = None if anchor is None else anchor.attributes.get("href")
    try:
        return None if target is None else urljoin(url, target)
    except ValueError:
        return None


def _checked(model: type[Model], values: dict[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found = [
            {
                "field": ".".join(map(str, one["loc"])) or "page",
                "message": one["msg"],
                "value": _shown(one.get("input")),
            }
            for one in error.errors(include_url=False, include_context=False)[:MAX_ERRORS]
        ]
        raise InvalidData(
            "; ".join(f"{one['field']}: {one['message']}" for one in found[:5]),
            details={"errors": found, "page": model.__name__},
        ) from None


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else repr(value)[:MAX_SHOWN_CHARACTERS]
