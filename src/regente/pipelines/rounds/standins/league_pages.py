"""The league's HTML: normal, with a fault, and with another layout."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from html import escape

from regente.pipelines.rounds.standins.league_calendar import Event, Match


class PageDefect(StrEnum):
    NO_NAME = "no_name"
    NO_NUMBER = "no_number"
    EVENT_LOST = "event_lost"


def round_page(
    prefix: str, league: str, number: int, matches: Sequence[Match], *, said: int
) -> str:
    items = "\n".join(
        f'<li class="match" data-match-id="{match.id}"><a '
        f'href="{prefix}/{league}/matches/{match.id}">'
        f"{escape(match.home[1])} x {escape(match.away[1])}</a></li>"
        for match in matches
    )
    head = f'<main id="round" data-league="{league}" data-round="{number}" data-matches="{said}">'
    return _document(f'{head}<h1>Rodada {number}</h1><ol class="matches">\n{items}\n</ol></main>')


def match_page(
    match: Match,
    *,
    status: str = "finished",
    kickoff_in_seconds: float | None = None,
    blemish: PageDefect | None = None,
) -> str:
    kickoff = (
        match.kickoff
        if kickoff_in_seconds is None
        else datetime.now(UTC) + timedelta(seconds=kickoff_in_seconds)
    )
    head = (
        f'<article id="match" data-match-id="{match.id}" data-round="{match.round}" '
        f'data-status="{status}">'
    )
    when = f'<time class="kickoff" datetime="{kickoff.isoformat()}">{kickoff:%d/%m/%Y %H:%M}</time>'
    teams = _team(match, "home", None, None) + _team(match, "away", None, None)
    if status != "finished":
        return _document(f"{head}{when}{teams}</article>")
    goals = match.goals
    name = "" if blemish is PageDefect.NO_NAME else match.home[1]
    number = "dois" if blemish is PageDefect.NO_NUMBER else str(goals[0])
    teams = _team(match, "home", name, number) + _team(match, "away", match.away[1], str(goals[1]))
    place = (
        f'<span class="venue">{escape(match.venue)}</span> <span '
        f'class="attendance">{_dotted(match.attendance)}</span>'
    )
    events = match.events[:-1] if blemish is PageDefect.EVENT_LOST else match.events
    return _document(
        f"{head}{when}{place}{teams}{_events(events, len(match.events))}{_stats(match)}</article>"
    )


def redesigned_page() -> str:
    return _document('<div class="x1 x9f"><b>2 x 1</b><i>Gols: Ada, Bento, Caio</i></div>')


def _team(match: Match, side: str, name: str | None, goals: str | None) -> str:
    slug, known = match.home if side == "home" else match.away
    score = "" if goals is None else f'<b class="goals">{goals}</b>'
    return (
        f'<section class="team" data-side="{side}" data-team="{slug}">'
        f'<h2 class="name">{escape(known if name is None else name)}</h2>{score}</section>'
    )


def _events(events: Sequence[Event], said: int) -> str:
    items = "\n".join(
        f'<li class="event" data-minute="{one.minute}" data-kind="{one.kind}" '
        f'data-side="{one.side}">'
        f'{one.minute}\' <span class="player">{escape(one.player)}</span></li>'
        for one in events
    )
    return f'<ol class="events" data-count="{said}">\n{items}\n</ol>'


def _stats(match: Match) -> str:
    rows = "\n".join(
        (
            f'<tr class="stat" data-stat="{name}" data-side="{side}"><th>{name}</th><td '
            f'class="value">{value}</td></tr>'
        )
        for name, side, value in match.stats
    )
    return f'<table class="stats" data-count="{len(match.stats)}">\n<tbody>{rows}</tbody></table>'


def _dotted(number: int) -> str:
    return f"{number:,}".replace(",", ".")


def _document(body: str) -> str:
    return (
        "<!DOCTYPE html>\n<html><head><meta "
        f'charset="utf-8"><title>Liga</title></head>\n<body>\n{body}\n</body></html>\n'
    )
