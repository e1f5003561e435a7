"""A scripted worker and writer over real HTTP, which count the requests that arrive."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from regente.asgi.server import serving

_numbers = itertools.count(1)
API_KEY = "a-key-for-tests"


@dataclass
class Fault:
    """Answers the next `times` matching calls differently; with `after` the call takes effect."""

    method: str
    path: str
    answer: Callable[[], Response]
    times: int = 1
    after: bool = False

    def matches(self, request: Request) -> bool:
        return (
            self.times > 0
            and request.method == self.method
            and re.fullmatch(self.path, request.url.path) is not None
        )


class Peer:
    def __init__(self) -> None:
        self.url = ""
        self.calls: list[tuple[str, str]] = []
        self.bodies: list[tuple[str, str, Any]] = []
        self.faults: list[Fault] = []
        self.open_paths = "/health"  # those that need no key

    def fault(
        self,
        method: str,
        path: str,
        status: int = 500,
        *,
        times: int = 1,
        after: bool = False,
        **headers: str,
    ) -> None:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        content = {"error": {"code": "FAULT", "message": "told to"}}
        answer = partial(JSONResponse, content, status, sent)
        self.faults.append(Fault(method, path, answer, times, after))

    def fault_with(
        self, method: str, path: str, answer: Callable[[], Response], *, times: int = 1
    ) -> None:
        self.faults.append(Fault(method, path, answer, times))

    def count(self, method: str, path: str) -> int:
        return sum(
            1 for called, where in self.calls if called == method and re.fullmatch(path, where)
        )

    async def handle(self, request: Request) -> Response:
        body = await request.body()
        self.calls.append((request.method, request.url.path))
        if body:
            self.bodies.append((request.method, request.url.path, json.loads(body)))
        is_open = re.fullmatch(self.open_paths, request.url.path) is not None
        if not is_open and request.headers.get("x-api-key") != API_KEY:
            return JSONResponse({"error": {"code": "UNAUTHORIZED", "message": "wrong key"}}, 401)
        for fault in self.faults:
            if fault.matches(request):
                fault.times -= 1
                if fault.after:
                    await self.answer(request, json.loads(body) if body else None)
                return fault.answer()
        return await self.answer(request, json.loads(body) if body else None)

    @property
    def spent(self) -> bool:
        """Whether every fault was used."""
        return all(fault.times == 0 for fault in self.faults)

    def sent(self, method: str, path: str) -> list[Any]:
        """The bodies of the requests to this path."""
        return [
            body
            for called, where, body in self.bodies
            if called == method and re.fullmatch(path, where)
        ]

    async def answer(self, request: Request, body: Any) -> Response:
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[str]:
        methods = ["GET", "POST", "DELETE"]
        app = Starlette(routes=[Route("/{path:path}", self.handle, methods=methods)])
        async with serving(app, port=port, drain_seconds=0) as url:
            self.url = url
            yield url


@dataclass
class Job:
    id: str
    statuses: list[dict[str, Any]]
    key: str | None = None
    asked: int = 0

    def next(self) -> dict[str, Any]:
        self.asked += 1
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


class ScriptedWorker(Peer):
    """By default every session is ready at once and every job finds 3 ads."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.name = name or f"worker-{next(_numbers)}"
        self.session_script: list[list[dict[str, Any]]] = []
        self.job_script: list[list[dict[str, Any]]] = []
        self.session: list[dict[str, Any]] | None = None
        self.jobs: dict[str, Job] = {}
        self.proxies: list[dict[str, Any]] = []
        self.knows_keys = True  # and says so: its session names a running job's key, or none
        self.obeys_cancel = True
        self.default_job: list[dict[str, Any]] = [{"status": "completed", "ads_count": 3}]
        self.gate = asyncio.Event()  # while it is clear, the default job stays running
        self.gate.set()

    async def answer(self, request: Request, body: Any) -> Response:
        method, path = request.method, request.url.path
        if path == "/session":
            return self._session(method, body)
        if path == "/session/status":
            return self._session_status()
        if path == "/scrape" and method == "POST":
            return self._scrape(request.headers.get("idempotency-key"))
        job = self.jobs.get(path.split("/")[2]) if path.startswith("/scrape/") else None
        if job is None:
            return JSONResponse({"error": {"code": "NOT_FOUND", "message": "no such job"}}, 404)
        if path.endswith("/cancel"):
            if self.obeys_cancel:
                job.statuses = [{"status": "cancelled"}]
            return JSONResponse({})
        if not self.gate.is_set() and job.statuses is self.default_job:
            return JSONResponse({"status": "running", "ads_count": 1})
        return JSONResponse(job.next())

    def _session(self, method: str, body: Any) -> Response:
        if method == "DELETE":
            self.session = None
            for job in self.jobs.values():
                if self._runs(job):
                    job.statuses = [{"status": "cancelled"}]
            return JSONResponse({})
        self.proxies.append(body["proxy"])
        self.session = (
            list(self.session_script.pop(0)) if self.session_script else [{"status": "ready"}]
        )
        return JSONResponse({})

    def _session_status(self) -> Response:
        if self.session is None:
            return JSONResponse({"status": "terminated"})
        status = self.session.pop(0) if len(self.session) > 1 else self.session[0]
        running = next((job for job in self.jobs.values() if self._runs(job)), None)
        known: dict[str, Any] = {"job_id": None, "job_key": None} if self.knows_keys else {}
        if running is not None and status["status"] == "ready":
            if self.knows_keys:
                known = {"job_id": running.id, "job_key": running.key}
            return JSONResponse({"status": "scraping"} | known)
        return JSONResponse(status | known)

    def _runs(self, job: Job) -> bool:
        if job.statuses is self.default_job:
            return not self.gate.is_set()
        return job.statuses[0]["status"] in ("pending", "queued", "running")

    def _scrape(self, key: str | None) -> Response:
        if self.knows_keys and key is not None:
            for job in self.jobs.values():
                if job.key == key:
                    return JSONResponse({"job_id": job.id})
        job = Job(
            f"scrape_{next(_numbers):08x}",
            self.job_script.pop(0) if self.job_script else self.default_job,
            key,
        )
        self.jobs[job.id] = job
        return JSONResponse({"job_id": job.id})


class ScriptedWriter(Peer):
    """By default every job is completed at once, with 3 rows stored."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.name = name or f"writer-{next(_numbers)}"
        self.job_script: list[list[dict[str, Any]]] = []
        self.jobs: dict[str, Job] = {}
        self.created: list[str] = []
        self.default_job: list[dict[str, Any]] = [stored(3)]

    async def answer(self, request: Request, body: Any) -> Response:
        path = request.url.path
        if path == "/health":
            return JSONResponse({"status": "healthy"})
        if path == "/process":
            job_id = body.get("job_id") or f"job-{next(_numbers)}"
            if job_id not in self.jobs:
                self.created.append(job_id)
                self.jobs[job_id] = Job(
                    job_id, self.job_script.pop(0) if self.job_script else list(self.default_job)
                )
            return JSONResponse({"job_id": job_id, "status": "processing"})
        job = self.jobs.get(path.removeprefix("/status/"))
        if job is None:
            return JSONResponse({"error": {"code": "NOT_FOUND", "message": "no such job"}}, 404)
        return JSONResponse({"job_id": job.id} | job.next())


def stored(count: int, failed: int = 0, status: str | None = None, **more: Any) -> dict[str, Any]:
    """The final answer of a writer for a job."""
    return {
        "status": status or ("partial" if failed else "completed"),
        "progress": {
            "total": count + failed,
            "processed": count + failed,
            "success_count": count,
            "failed_count": failed,
        },
        "failed_items": [
            {"index": i, "data": {"id": f"bad{i}"}, "error": "told to"} for i in range(failed)
        ],
    } | more
