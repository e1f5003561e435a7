"""The ad library's web site: front page, sessions, result pages, known totals and fault API."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import ValidationError

from regente.contracts.worker import Filters
from regente.services.sandbox.catalogue import Catalogue
from regente.services.sandbox.fault_responses import apply_fault, hang, refusal
from regente.services.sandbox.faults import Fault, FaultInjector, FaultKind, ObservedRequest
from regente.services.sandbox.pages import ResultsPage, plain_page, redesigned_page, results_page

SESSION_COOKIE = "library_session"
MAX_DAYS = 400
MAX_PER_PAGE = 200
_MAX_SESSIONS = 10_000
_REPEATED = 3


@dataclass(frozen=True, slots=True)
class LibrarySession:
    """A session, bound to the proxy that opened it."""

    proxy: str | None
    stuck: bool


@dataclass(frozen=True, slots=True)
class Search:
    filters: Filters
    page: int
    per_page: int


class Library:
    """The site. `proxy_ports` maps the local port of a connection to the name of its proxy."""

    def __init__(
        self, catalogue: Catalogue, faults: FaultInjector, proxy_ports: Mapping[int, str]
    ) -> None:
        self.catalogue = catalogue
        self.faults = faults
        self.closing = asyncio.Event()
        self.requests = 0
        self._proxy_ports = proxy_ports
        self._sessions: OrderedDict[str, LibrarySession] = OrderedDict()

    def app(self) -> FastAPI:
        app = FastAPI(title="Sandbox ad library", docs_url=None, redoc_url=None, openapi_url=None)
        app.add_api_route("/", self.front_page, methods=["GET"])
        app.add_api_route("/session", self.open_session, methods=["GET", "POST"])
        app.add_api_route("/home", self.home, methods=["GET"])
        app.add_api_route("/ads", self.ads, methods=["GET"])
        app.add_api_route("/ads.json", self.ads_as_json, methods=["GET"])
        app.add_api_route("/known-total", self.known_total, methods=["GET"])
        app.add_api_route("/admin/faults", self.list_faults, methods=["GET"])
        app.add_api_route("/admin/faults", self.add_fault, methods=["POST"], status_code=201)
        app.add_api_route("/admin/faults", self.clear_faults, methods=["DELETE"])
        app.add_api_route("/admin/faults/{fault_id}", self.clear_fault, methods=["DELETE"])
        return app

    async def front_page(self, request: Request) -> Response:
        return await self._answer(
            request,
            HTMLResponse(plain_page("Ad library", "Every ad, by date, format and language.")),
        )

    async def open_session(self, request: Request) -> Response:
        fault = self._take_fault(request)
        token = secrets.token_urlsafe(18)
        self._sessions[token] = LibrarySession(
            self._proxy_of(request), fault is not None and fault.kind is FaultKind.STUCK_SESSION
        )
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        answer = HTMLResponse(plain_page("Welcome", "You have a session."))
        answer.set_cookie(SESSION_COOKIE, token, httponly=True)
        return await apply_fault(fault, answer, request, self.closing) if fault else answer

    async def home(self, request: Request) -> Response:
        session = self._session_of(request)
        if session is None:
            return refusal(403, "Ask for a session first")
        return await self._answer(request, HTMLResponse(plain_page("Home", "Search for ads.")))

    async def ads(self, request: Request) -> Response:
        session = self._session_of(request)
        if session is None:
            return refusal(403, "Ask for a session first")
        if session.stuck:
            return await hang(request, self.closing)
        try:
            wanted = _search(request)
        except ValueError as error:
            return refusal(400, f"Invalid search: {error}")
        fault = self._take_fault(request, wanted)
        kind = fault.kind if fault else None
        page = redesigned_page if kind is FaultKind.LAYOUT else results_page
        answer = HTMLResponse(page(self._results_page(wanted, kind)))
        return await apply_fault(fault, answer, request, self.closing) if fault else answer

    async def ads_as_json(self, request: Request) -> Response:
        """All ads of a filter in one JSON file, without a session."""
        try:
            wanted = _search(request)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        fault = self._take_fault(request, wanted)
        answer = JSONResponse({"ads": [ad.as_dict() for ad in self.catalogue.ads(wanted.filters)]})
        return await apply_fault(fault, answer, request, self.closing) if fault else answer

    async def known_total(self, request: Request) -> dict[str, int]:
        try:
            return {"total": self.catalogue.total(_search(request).filters)}
        except ValueError as error:
            raise HTTPException(422, str(error)) from None

    async def list_faults(self) -> dict[str, Any]:
        active = [
            {"id": key, **fault.model_dump(mode="json")}
            for key, fault in self.faults.active().items()
        ]
        return {"faults": active, "struck": self.faults.struck, "requests": self.requests}

    async def add_fault(self, fault: Fault) -> dict[str, int]:
        return {"id": self.faults.add(fault)}

    async def clear_faults(self) -> dict[str, int]:
        return {"cleared": self.faults.clear()}

    async def clear_fault(self, fault_id: int) -> dict[str, int]:
        if not self.faults.clear(fault_id):
            raise HTTPException(404, f"no fault {fault_id} is active")
        return {"cleared": 1}

    async def _answer(self, request: Request, answer: Response) -> Response:
        fault = self._take_fault(request)
        return await apply_fault(fault, answer, request, self.closing) if fault else answer

    def _take_fault(self, request: Request, search: Search | None = None) -> Fault | None:
        self.requests += 1
        path, proxy = request.url.path, self._proxy_of(request)
        if search is None:
            return self.faults.take_match(ObservedRequest(proxy, path), by_proxy=False)
        chosen = search.filters
        days, languages = chosen.date_range, frozenset(chosen.languages)
        observed = ObservedRequest(
            proxy, path, days.start, days.end, chosen.format, languages, search.page
        )
        return self.faults.take_match(observed, by_proxy=False)

    def _results_page(self, search: Search, kind: FaultKind | None) -> ResultsPage:
        repeated = _REPEATED if kind is FaultKind.REPEATS else 0
        missing = 1 if kind is FaultKind.MISSING else 0
        total = self.catalogue.total(search.filters)
        stop = search.page * search.per_page
        start = stop - search.per_page
        ads = self.catalogue.ads(
            search.filters, max(0, start - repeated), min(stop, total) - missing
        )
        if kind is FaultKind.SPOILED and ads:
            ads[0] = replace(ads[0], started_on="0000-00-00")
        return ResultsPage(
            ads, total, search.page, _address(search, search.page + 1) if stop < total else None
        )

    def _session_of(self, request: Request) -> LibrarySession | None:
        session = self._sessions.get(request.cookies.get(SESSION_COOKIE, ""))
        return session if session is not None and session.proxy == self._proxy_of(request) else None

    def _proxy_of(self, request: Request) -> str | None:
        return self._proxy_ports.get(request.client.port) if request.client else None


def _search(request: Request) -> Search:
    asked = request.query_params
    page, per_page = int(asked.get("page", "1")), int(asked.get("per_page", "50"))
    if page < 1 or not 1 <= per_page <= MAX_PER_PAGE:
        raise ValueError(f"pages start at 1 and have 1 to {MAX_PER_PAGE} ads")
    try:
        filters = Filters.model_validate(
            {
                "date_range": {"start": asked.get("start"), "end": asked.get("end")},
                "format": asked.get("format", "all"),
                "languages": [
                    language for language in asked.get("languages", "").split(",") if language
                ],
            }
        )
    except ValidationError as error:
        raise ValueError(
            "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        ) from None
    if (filters.date_range.end - filters.date_range.start).days >= MAX_DAYS:
        raise ValueError(f"at most {MAX_DAYS} days per search")
    return Search(filters, page, per_page)


def _address(search: Search, page: int) -> str:
    chosen = search.filters
    days, languages = chosen.date_range, ",".join(chosen.languages)
    asked = {"start": days.start, "end": days.end, "format": chosen.format, "languages": languages}
    return f"/ads?{urlencode(asked | {'page': page, 'per_page': search.per_page})}"
