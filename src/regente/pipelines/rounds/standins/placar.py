"""A second league site, built differently: other elements, numeric ids, other dates.

The same calendar as `league.py`; `placar.break_match("120003", "layout")` breaks a page.
"""

from __future__ import annotations

from enum import StrEnum
from html import escape
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from regente.pipelines.rounds.standins.league_calendar import LEAGUE, ROUNDS, Calendar, Event, Match
from regente.services.sandbox.fault_responses import refusal

BRASILIA = ZoneInfo("America/Sao_Paulo")
DAYS = ("seg", "ter", "qua", "qui", "sex", "sáb", "dom")
KINDS = {
    "goal": "g",
    "own_goal": "gc",
    "yellow_card": "ca",
    "red_card": "cv",
    "substitution": "s",
}
STATS = {
    "possession": "Posse de bola",
    "shots": "Chutes",
    "shots-on-target": "Chutes no gol",
    "passes": "Passes",
    "fouls": "Faltas",
    "corners": "Escanteios",
    "offsides": "Impedimentos",
    "saves": "Defesas",
}


class PlacarFault(StrEnum):
    LAYOUT = "layout"
    """The same match in a different layout."""
    NO_VENUE = "no_venue"
    GONE = "gone"
    """404."""


class Placar:
    prefix = "/placar"

    def __init__(self, seed: int) -> None:
        self.calendar = Calendar(seed)
        self.calls: dict[str, int] = {}
        self._broken: dict[str, PlacarFault] = {}

    def router(self) -> APIRouter:
        router = APIRouter()
        router.add_api_route("/{league}/rodada-{number}.html", self.round, methods=["GET"])
        router.add_api_route("/{league}/jogo/{match_id}.html", self.match, methods=["GET"])
        return router

    def reset(self) -> None:
        self._broken.clear()
        self.calls.clear()

    def break_match(self, match_id: str, fault: str | None) -> None:
        """Break a match's page; None repairs it."""
        self._broken.pop(match_id, None)
        if fault is not None:
            self._broken[match_id] = PlacarFault(fault)

    async def round(self, league: str, number: int) -> Response:
        if not LEAGUE.fullmatch(league) or not 1 <= number <= ROUNDS:
            return refusal(404, "There is no such round")
        self._count(f"round {number}")
        return HTMLResponse(round_page(league, number, self.calendar.round(league, number)))

    async def match(self, league: str, match_id: str) -> Response:
        self._count(f"match {match_id}")
        found = self._found(league, match_id)
        fault = self._broken.get(match_id)
        if found is None or fault is PlacarFault.GONE:
            return refusal(404, "There is no such match")
        page = match_page(found, match_id)
        if fault is PlacarFault.LAYOUT:
            page = page.replace("ficha", "nova-ficha")
        if fault is PlacarFault.NO_VENUE:
            page = page.replace(f"<b>{escape(found.venue)}</b>", "<b></b>")
        return HTMLResponse(page)

    def _found(self, league: str, match_id: str) -> Match | None:
        if not LEAGUE.fullmatch(league) or not match_id.isdecimal():
            return None
        number, place = divmod(int(match_id), 10_000)
        matches = self.calendar.round(league, number) if 1 <= number <= ROUNDS else []
        return matches[place] if place < len(matches) else None

    def _count(self, route: str) -> None:
        self.calls[route] = self.calls.get(route, 0) + 1


def id_of(number: int, place: int) -> str:
    return str(number * 10_000 + place)


def round_page(league: str, number: int, matches: list[Match]) -> str:
    rows = "\n".join(
        f'<tr class="jogo"><td>{escape(match.home[1])}</td>'
        f'<td><a href="jogo/{id_of(number, place)}.html">ver jogo</a></td>'
        f"<td>{escape(match.away[1])}</td></tr>"
        for place, match in enumerate(matches)
    )
    return _document(
        f'<section class="rodada"><h1>Campeonato <b>{league}</b></h1><h2>{number}ª rodada</h2>'
        f'<p class="total">{len(matches)} jogos</p><table>\n{rows}\n</table></section>'
    )


def match_page(match: Match, match_id: str) -> str:
    begins = match.kickoff.astimezone(BRASILIA)
    when = f"{DAYS[begins.weekday()]} {begins:%d/%m/%Y} às {begins:%Hh%M} (Brasília)"
    public = f"{match.attendance:,}".replace(",", ".")
    goals = match.goals
    head = (
        f'<span class="codigo">Jogo nº {match_id}</span> <em>Encerrado</em>'
        f'<p class="quando">{when}</p>'
        f'<p class="onde"><b>{escape(match.venue)}</b> <i>Público: {public}</i></p>'
    )
    teams = "".join(
        f'<div class="{side}"><a href="/time">{escape(name)}</a> <strong>{count}</strong></div>'
        for side, name, count in (
            ("mandante", match.home[1], goals[0]),
            ("visitante", match.away[1], goals[1]),
        )
    )
    lists = "".join(
        f'<ul class="{name}">{_events(match.events, side)}</ul>'
        for name, side in (("mandante", "home"), ("visitante", "away"))
    )
    events = f'<div class="lances"><h3>{len(match.events)} lances</h3>{lists}</div>'
    return _document(f'<main class="ficha">{head}{teams}{events}{_stats(match)}</main>')


def _events(events: tuple[Event, ...], side: str) -> str:
    return "".join(
        f'<li class="{KINDS[one.kind]}">{one.minute}\' {escape(one.player)}</li>'
        for one in events
        if one.side == side
    )


def _stats(match: Match) -> str:
    values = {(name, side): value for name, side, value in match.stats}
    rows = "".join(
        f"<tr><td>{values[name, 'home']}</td><th>{label}</th><td>{values[name, 'away']}</td></tr>"
        for name, label in STATS.items()
    )
    return f'<table class="numeros">{rows}</table>'


def _document(body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="pt-BR"><head><meta charset="utf-8"><title>Placar</title>'
        f"</head>\n<body>\n{body}\n</body></html>\n"
    )
