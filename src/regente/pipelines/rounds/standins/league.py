"""A league's web site: 20 teams, 38 rounds of 10 matches, any league name. The same seed plays the
same matches.

Faults strike by match: `league.break_with("unavailable", match_id="…", count=2)`, or POST them to
`/league/admin/faults`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from regente.pipelines.rounds.standins.league_calendar import LEAGUE, ROUNDS, Calendar, Match
from regente.pipelines.rounds.standins.league_pages import (
    PageDefect,
    match_page,
    redesigned_page,
    round_page,
)
from regente.services.sandbox.fault_responses import CutOffResponse, hang, refusal

HTML = "text/html; charset=utf-8"
DRIPS = 50


class LeagueFault(StrEnum):
    NOT_FOUND = "not_found"
    LAYOUT = "layout"
    """The same content in another layout."""
    MISSING_FIELD = "missing_field"
    """A team without a name."""
    WRONG_TYPE = "wrong_type"
    """Goals that are not a number."""
    WRONG_COUNT = "wrong_count"
    """One event less than the page declares."""
    HANG = "hang"
    UNAVAILABLE = "unavailable"
    """503."""
    DRIP = "drip"
    """The page comes in small pieces, over `seconds`."""
    THROTTLED = "throttled"
    """429 with Retry-After."""
    GARBAGE = "garbage"
    """200 with bytes that are not a page."""
    TRUNCATED = "truncated"
    """Half of the page, with its content length."""
    CUT_OFF = "cut_off"
    """The connection is cut in the middle of the page."""
    AWAY = "away"
    """A redirect to another site."""
    POSTPONED = "postponed"
    SCHEDULED = "scheduled"
    LIVE = "live"


PAGE_DEFECTS = {
    LeagueFault.MISSING_FIELD: PageDefect.NO_NAME,
    LeagueFault.WRONG_TYPE: PageDefect.NO_NUMBER,
    LeagueFault.WRONG_COUNT: PageDefect.EVENT_LOST,
}
STATES = {
    LeagueFault.POSTPONED: "postponed",
    LeagueFault.SCHEDULED: "scheduled",
    LeagueFault.LIVE: "live",
}


class Fault(BaseModel):
    """A fault and its scope: omitted fields match everything, no `count` means until cleared."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: LeagueFault
    league: str | None = None
    match_id: str | None = None
    round: int | None = Field(None, description="The round's own page, not those of its matches.")
    count: int | None = Field(None, ge=1)
    retry_after: float = Field(1.0, ge=0)
    seconds: float = Field(5.0, ge=0, le=3600)
    kickoff_in: float = Field(
        -3600.0, description="Seconds from now until the kick-off of an unfinished match."
    )


class League:
    prefix = "/league"

    def __init__(self, seed: int) -> None:
        self.calendar = Calendar(seed)
        self.calls: dict[str, int] = {}
        self._faults: dict[int, tuple[Fault, int | None]] = {}
        self._numbers = 0
        self._closing = asyncio.Event()

    def router(self) -> APIRouter:
        router = APIRouter()
        router.add_api_route("/admin/faults", self.list_faults, methods=["GET"])
        router.add_api_route("/admin/faults", self.add_fault, methods=["POST"], status_code=201)
        router.add_api_route("/admin/faults", self.clear_faults, methods=["DELETE"])
        router.add_api_route("/{league}/rounds/{number}", self.round, methods=["GET"])
        router.add_api_route("/{league}/matches/{match_id}", self.match, methods=["GET"])
        return router

    def calm(self) -> None:
        self._faults.clear()
        self.calls.clear()

    def break_with(self, kind: str, **scope: Any) -> int:
        """Add a fault; see `Fault` for the scope."""
        self._numbers += 1
        fault = Fault(kind=LeagueFault(kind), **scope)
        self._faults[self._numbers] = (fault, fault.count)
        return self._numbers

    async def list_faults(self) -> list[dict[str, Any]]:
        return [
            {"id": key, **fault.model_dump(mode="json"), "left": left}
            for key, (fault, left) in self._faults.items()
        ]

    async def add_fault(self, fault: Fault) -> dict[str, int]:
        return {"id": self.break_with(**fault.model_dump())}

    async def clear_faults(self) -> dict[str, int]:
        cleared = len(self._faults)
        self._faults.clear()
        return {"cleared": cleared}

    async def round(self, league: str, number: int, request: Request) -> Response:
        self._count(f"round {number}")
        if not LEAGUE.fullmatch(league) or not 1 <= number <= ROUNDS:
            return refusal(404, "There is no such round")
        fault = self._strike(league, round_number=number)
        matches = self.calendar.round(league, number)
        lost = fault is not None and fault.kind is LeagueFault.WRONG_COUNT
        page = round_page(
            self.prefix, league, number, matches[:-1] if lost else matches, said=len(matches)
        )
        return await self._spoilt(fault, page, request)

    async def match(self, league: str, match_id: str, request: Request) -> Response:
        self._count(f"match {match_id}")
        found = self.calendar.match(league, match_id) if LEAGUE.fullmatch(league) else None
        if found is None:
            return refusal(404, "There is no such match")
        fault = self._strike(league, match_id=match_id)
        return await self._spoilt(fault, _page(found, fault), request)

    def _count(self, route: str) -> None:
        self.calls[route] = self.calls.get(route, 0) + 1

    def _strike(
        self, league: str, *, match_id: str | None = None, round_number: int | None = None
    ) -> Fault | None:
        for key, (fault, left) in list(self._faults.items()):
            about_round = fault.round is not None
            if fault.league not in (None, league) or about_round != (round_number is not None):
                continue
            if fault.round not in (None, round_number) or fault.match_id not in (None, match_id):
                continue
            if left == 1:
                del self._faults[key]
            elif left is not None:
                self._faults[key] = (fault, left - 1)
            return fault
        return None

    async def _spoilt(self, fault: Fault | None, page: str, request: Request) -> Response:
        if fault is None:
            return HTMLResponse(page)
        match fault.kind:
            case LeagueFault.NOT_FOUND:
                return refusal(404, "This match was taken down")
            case LeagueFault.UNAVAILABLE:
                return refusal(503, "Something went wrong")
            case LeagueFault.THROTTLED:
                return refusal(429, "Too many requests", {"Retry-After": f"{fault.retry_after:g}"})
            case LeagueFault.HANG:
                return await hang(request, self._closing)
            case LeagueFault.DRIP:
                return StreamingResponse(_drip(page.encode(), fault.seconds), media_type=HTML)
            case _:
                return _spoilt_page(fault.kind, page, request)


def _spoilt_page(kind: LeagueFault, page: str, request: Request) -> Response:
    match kind:
        case LeagueFault.GARBAGE:
            return Response(bytes(range(256)) * 8, media_type=HTML)
        case LeagueFault.TRUNCATED:
            return HTMLResponse(page[: len(page) // 2])
        case LeagueFault.CUT_OFF:
            return CutOffResponse(page.encode(), media_type=HTML)
        case LeagueFault.AWAY:
            return RedirectResponse(f"http://localhost:{request.url.port}/")
        case LeagueFault.LAYOUT:
            return HTMLResponse(redesigned_page())
        case _:
            return HTMLResponse(page)


def _page(match: Match, fault: Fault | None) -> str:
    if fault is not None and fault.kind in STATES:
        return match_page(match, status=STATES[fault.kind], kickoff_in_seconds=fault.kickoff_in)
    return match_page(match, blemish=PAGE_DEFECTS.get(fault.kind) if fault else None)


async def _drip(body: bytes, seconds: float) -> AsyncIterator[bytes]:
    size = max(1, math.ceil(len(body) / DRIPS))
    for start in range(0, len(body), size):
        await asyncio.sleep(seconds / DRIPS)
        yield body[start : start + size]
