"""An independent worker: correct except for injected faults; a job advances at each poll."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from regente.contracts.worker import ScrapeRequest, SessionRequest

KEY = "a-key-for-the-worker"
ADS = 3
MAX_BODY = 1 << 20
ROUTES = (
    ("POST", "/session"),
    ("GET", "/session/status"),
    ("DELETE", "/session"),
    ("POST", "/scrape"),
    ("GET", "/scrape/{job_id}"),
    ("POST", "/scrape/{job_id}/cancel"),
)
Handler = Callable[..., Awaitable[Response]]


@dataclass(slots=True)
class Job:
    steps: list[str]
    status: str = "pending"

    def look(self) -> str:
        if self.status not in ("completed", "cancelled") and self.steps:
            self.status = self.steps.pop(0)
        return self.status


@dataclass(slots=True)
class WorkerApp:
    """`replies`: fixed responses by route, given after the key check. `without_key`: open
    routes."""

    faults: frozenset[str] = frozenset()
    replies: dict[str, Callable[[], Awaitable[Response]]] = field(default_factory=dict)
    without_key: frozenset[str] = frozenset()
    refused_with: int = 401
    sessions: list[Any] = field(default_factory=list)
    warming: list[str] = field(default_factory=list)
    session: str | None = None
    jobs: dict[str, Job] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    scrapes: list[bytes] = field(default_factory=list)
    numbers: Any = field(default_factory=itertools.count)

    def app(self) -> FastAPI:
        app = FastAPI()
        handlers: tuple[Handler, ...] = (
            self.start,
            self.session_status,
            self.end,
            self.scrape,
            self.job_status,
            self.cancel,
        )
        for (method, path), handler in zip(ROUTES, handlers, strict=True):
            app.add_api_route(path, self._route(f"{method} {path}", handler), methods=[method])
        app.add_api_route("/storage/{job_id}/{name}", self.result, methods=["GET"])
        return app

    def _route(self, name: str, handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            if request.headers.get("x-api-key") != KEY and name not in self.without_key:
                return JSONResponse({"detail": "no"}, self.refused_with)
            if name in self.replies:
                return await self.replies[name]()
            return await handler(request)

        return answer

    async def start(self, request: Request) -> Response:
        payload = await request.json()
        SessionRequest.model_validate(payload)
        self.sessions.append(payload)
        self.session = "initializing"
        self.warming = [
            "connecting",
            "warm" if "odd session status" in self.faults else "warming_up",
        ]
        if "never ready" in self.faults:
            self.warming = ["connecting", "stuck"]
        else:
            self.warming.append("ready")
        return JSONResponse({"echo": payload}, 201 if "session 201" in self.faults else 200)

    async def session_status(self, request: Request) -> Response:
        if self.session and self.warming:
            self.session = self.warming.pop(0)
        return JSONResponse({"status": self.session or "terminated"})

    async def end(self, request: Request) -> Response:
        if self.session is None and "second end is 404" in self.faults:
            return JSONResponse({"detail": "no session"}, 404)
        first, self.session = self.session is not None, None
        return JSONResponse({}, 202 if first and "first end is 202" in self.faults else 200)

    async def scrape(self, request: Request) -> Response:
        body = await request.body()
        if len(body) > MAX_BODY and "no size limit" not in self.faults:
            return JSONResponse({"detail": "too large"}, 413)
        refusal = self._refusal(body)
        if refusal:
            return JSONResponse({"detail": refusal}, 422)
        if self.session is None and "scrapes without a session" not in self.faults:
            return JSONResponse({"detail": "no session"}, 409)
        self.scrapes.append(body)
        name = "id" if "a job has an id" in self.faults else "job_id"
        return JSONResponse({name: self._job_id(request.headers.get("idempotency-key"))})

    def _job_id(self, key: str | None) -> str:
        if key in self.keys and "no idempotency" not in self.faults:
            return self.keys[str(key)]
        job_id = f"scrape_{next(self.numbers)}"
        odd = "odd" if "odd job status" in self.faults else "running"
        self.jobs[job_id] = Job(
            ["queued", odd, "failed" if "jobs fail" in self.faults else "completed"]
        )
        if key:
            self.keys[key] = job_id
        return job_id

    def _refusal(self, body: bytes) -> str | None:
        try:
            ScrapeRequest.model_validate_json(body)
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            where = ".".join(map(str, found["loc"]))
            kind = f"takes {where or found['type']}: {found['type']}"
            return None if kind in self.faults else kind
        return None

    async def job_status(self, request: Request) -> Response:
        job = self.jobs.get(request.path_params["job_id"])
        if job is None:
            return JSONResponse(
                {"status": "failed"}, 200 if "unknown job is 200" in self.faults else 404
            )
        status = job.look()
        count: Any = ADS if status == "completed" else None
        for name, value in (
            ("count is text", "3"),
            ("count is true", True),
            ("count is missing", None),
        ):
            count = value if name in self.faults and status == "completed" else count
        return JSONResponse(
            {"status": status, "ads_count": count, "data": [{}] * ADS if count else []}
        )

    async def cancel(self, request: Request) -> Response:
        job = self.jobs.get(request.path_params["job_id"])
        if job is None:
            return JSONResponse({}, 200 if "cancels what is unknown" in self.faults else 404)
        if job.status != "completed" and "cancel is ignored" not in self.faults:
            job.status, job.steps = "cancelled", []
        return JSONResponse({}, 202 if "cancel is 202" in self.faults else 200)

    async def result(self, job_id: str, name: str) -> Response:
        if job_id not in self.jobs or name != f"{job_id}_results.json":
            return JSONResponse({}, 404)
        rows = [{"id": str(number), "ads": [1, 2]} for number in range(ADS)]
        if "result is short" in self.faults:
            rows.pop()
        whole = json.dumps({"meta": {"ads": 7}, "ads": rows})
        return Response(
            whole[:-3] if "result is cut" in self.faults else whole, media_type="application/json"
        )


async def hang() -> Response:
    await asyncio.Event().wait()
    raise AssertionError


async def html() -> Response:
    return Response("<html><body>Bad gateway</body></html>", media_type="text/html")


async def garbage() -> Response:
    return Response(b"\x00\xff\xfe{[", media_type="application/json")


async def deep() -> Response:
    return Response("[" * 100_000, media_type="application/json")


async def huge() -> Response:
    return Response(
        b'{"status": "ready", "padding": "' + b"x" * (10 << 20) + b'"}',
        media_type="application/json",
    )
