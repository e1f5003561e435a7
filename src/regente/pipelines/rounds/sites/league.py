"""The adapter of the sandbox's league, in Python."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

from selectolax.lexbor import LexborNode

from regente.pipelines.rounds.adapters import (
    LayoutChanged,
    Page,
    attribute,
    digits,
    required,
    text,
)
from regente.pipelines.rounds.models import PlayState


class LeagueSite:
    leagues = ("*",)
    base_url = "{sandbox}/league"

    def round_url(self, league: str, number: int) -> str:
        return f"/{league}/rounds/{number}"

    def discover(self, page: Page) -> dict[str, Any]:
        main = required(page.root, "main#round")
        listed = required(main, "ol.matches")
        return {
            "league": attribute(main, "data-league"),
            "number": attribute(main, "data-round"),
            "matches_said": attribute(main, "data-matches"),
            "matches": [
                {"match_id": attribute(one, "data-match-id"), "url": _link(one, page.url)}
                for one in listed.css("li.match")
            ],
        }

    def parse(self, page: Page) -> dict[str, Any]:
        article = required(page.root, "article#match")
        fixture = {
            "match_id": attribute(article, "data-match-id"),
            "status": attribute(article, "data-status"),
            "kickoff_at": attribute(required(article, "time.kickoff"), "datetime"),
        }
        if fixture["status"] in {*PlayState} - {PlayState.FINISHED}:
            return fixture
        events, stats = required(article, "ol.events"), required(article, "table.stats")
        teams = article.css("section.team")
        if not teams:
            raise LayoutChanged("the page has no section.team", details={"missing": "section.team"})
        return {
            **fixture,
            "venue": text(article.css_first("span.venue")),
            "attendance": digits(text(article.css_first("span.attendance"))),
            "teams": [_team(one) for one in teams],
            "events_said": attribute(events, "data-count"),
            "events": [_event(one) for one in events.css("li.event")],
            "stats_said": attribute(stats, "data-count"),
            "stats": [_stat(one) for one in stats.css("tr.stat")],
        }


def _team(node: LexborNode) -> dict[str, Any]:
    return {
        "side": attribute(node, "data-side"),
        "slug": attribute(node, "data-team"),
        "name": text(node.css_first("h2.name")),
        "goals": text(node.css_first("b.goals")),
    }


def _event(node: LexborNode) -> dict[str, Any]:
    return {
        "minute": attribute(node, "data-minute"),
        "kind": attribute(node, "data-kind"),
        "side": attribute(node, "data-side"),
        "player": text(node.css_first("span.player")),
    }


def _stat(node: LexborNode) -> dict[str, Any]:
    return {
        "name": attribute(node, "data-stat"),
        "side": attribute(node, "data-side"),
        "value": text(node.css_first("td.value")),
    }


def _link(node: LexborNode, url: str) -> str | None:
    anchor = node.css_first("a[href]")
    target = None if anchor is None else anchor.attributes.get("href")
    try:
        return None if target is None else urljoin(url, target)
    except ValueError:
        return None


SITE = LeagueSite()
