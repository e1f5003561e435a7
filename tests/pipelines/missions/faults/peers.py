"""A worker and a writer with slow jobs, which record sessions, proxies and jobs with their
times; these records are the oracle."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.support.peers import Job, ScriptedWorker, ScriptedWriter, stored

_numbers = itertools.count(1)
COMPLETED: dict[str, Any] = {"status": "completed", "ads_count": 3}
STUCK = "session stuck"
FOREVER = math.inf


@dataclass(frozen=True, slots=True)
class JobScript:
    """How long a job takes and its final answer. STUCK: session broken, job silent."""

    seconds: float = 0.1
    final_answer: dict[str, Any] = field(default_factory=lambda: dict(COMPLETED))

    @property
    def breaks_session(self) -> bool:
        return self.final_answer.get("status") == STUCK


@dataclass
class SessionSpan:
    proxy: str
    opened: float
    states: list[str]
    closed: float = FOREVER
    replaced: bool = False  # by another one, instead of being ended


@dataclass
class WatchedJob:
    id: str
    day: date
    key: str | None
    began: float
    script: JobScript
    cut: float = FOREVER  # when it was canceled, or lost its session

    @property
    def natural_end(self) -> float:
        return self.began + self.script.seconds

    @property
    def end(self) -> float:
        """When it ended. A job in a stuck session runs until it is ended from outside."""
        return self.cut if self.script.breaks_session else min(self.cut, self.natural_end)

    @property
    def ran_to_end(self) -> bool:
        """Whether it reached its scripted end before it was cut short."""
        return time.monotonic() >= self.natural_end and self.cut >= self.natural_end

    def runs(self) -> bool:
        return time.monotonic() < self.end

    def word(self) -> dict[str, Any]:
        if self.runs():
            return {"status": "running", "ads_count": 1}
        return {"status": "cancelled"} if self.cut < self.natural_end else self.script.final_answer

    def finish(self, final_answer: dict[str, Any] | None = None) -> None:
        """Ends the job now with this answer."""
        self.script = JobScript(time.monotonic() - self.began, final_answer or dict(COMPLETED))


class WatchedWorker(ScriptedWorker):
    """Sessions are ready after `warm_up` polls; `script_of` gives each job its script."""

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self.spans: list[SessionSpan] = []
        self.watched: dict[str, WatchedJob] = {}
        self.script_of: Callable[[date], JobScript] = lambda _: JobScript()
        self.states_of: Callable[[], list[str]] = lambda: ["initializing", "ready"]
        self.tells_scraping = True  # otherwise its session stays `ready` while a job runs

    async def answer(self, request: Request, body: Any) -> Response:
        method, path = request.method, request.url.path
        if path == "/session":
            self._close_span(replaced=method == "POST")
            if method == "POST":
                self.spans.append(
                    SessionSpan(body["proxy"]["server"], time.monotonic(), self.states_of())
                )
            return JSONResponse({})
        if path == "/session/status":
            return self._session_status()
        if path == "/scrape":
            return self._accept(body, request.headers.get("idempotency-key"))
        job = self.watched.get(path.split("/")[2])
        if job is None:
            return JSONResponse({"error": {"code": "NOT_FOUND", "message": "no such job"}}, 404)
        if path.endswith("/cancel"):
            self._cut(job)
            return JSONResponse({})
        return JSONResponse(job.word())

    @property
    def span(self) -> SessionSpan | None:
        return self.spans[-1] if self.spans and self.spans[-1].closed == FOREVER else None

    @property
    def running(self) -> list[WatchedJob]:
        return [job for job in self.watched.values() if job.runs()]

    @property
    def overlapping(self) -> list[tuple[str, str]]:
        """Jobs that ran here at the same time."""
        return overlaps([(job.began, job.end, job.id) for job in self.watched.values()])

    def _close_span(self, *, replaced: bool) -> None:
        if (span := self.span) is not None:
            span.closed, span.replaced = time.monotonic(), replaced
        for job in self.running:
            self._cut(job)

    def _cut(self, job: WatchedJob) -> None:
        if job.runs():
            job.cut = time.monotonic()

    def _session_status(self) -> Response:
        if self.span is None:
            return JSONResponse({"status": "terminated"})
        states = self.span.states
        status = states.pop(0) if len(states) > 1 else states[0]
        for job in self.running:
            if job.script.breaks_session and job.ran_to_end:
                return JSONResponse({"status": "stuck"})
            if self.tells_scraping:
                known = {"job_id": job.id, "job_key": job.key} if self.knows_keys else {}
                return JSONResponse({"status": "scraping"} | known)
        known = {"job_id": None, "job_key": None} if self.knows_keys else {}
        return JSONResponse({"status": status} | known)

    def _accept(self, body: Any, key: str | None) -> Response:
        if self.knows_keys:
            for job in self.watched.values():
                if job.key == key:
                    return JSONResponse({"job_id": job.id})
        if self.span is None:
            return JSONResponse(
                {"error": {"code": "NO_SESSION", "message": "no session is open"}}, 400
            )
        day = date.fromisoformat(body["filters"]["date_range"]["start"])
        job = WatchedJob(
            f"scrape_{next(_numbers):08x}", day, key, time.monotonic(), self.script_of(day)
        )
        self.watched[job.id] = job
        return JSONResponse({"job_id": job.id})


@dataclass
class WriterJob(Job):
    url: str = ""
    ready_at: float = 0.0
    final_answer: dict[str, Any] = field(default_factory=dict)

    def next(self) -> dict[str, Any]:
        self.asked += 1
        if time.monotonic() < self.ready_at:
            return {"status": "processing", "progress": {"total": 3, "processed": 1}}
        return self.final_answer

    @property
    def scrape_id(self) -> str:
        """The scrape job whose results it stores: `…/{job_id}/{job_id}_results.json`."""
        return self.url.split("/")[-2]


class WatchedWriter(ScriptedWriter):
    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self.script_of: Callable[[str], JobScript] = lambda _: JobScript(0.05, stored(3))
        self.watched: dict[str, WriterJob] = {}

    async def answer(self, request: Request, body: Any) -> Response:
        if request.url.path == "/process" and (job_id := body["job_id"]) not in self.jobs:
            url = body["source"]["url"]
            script = self.script_of(url.split("/")[-2])
            self.created.append(job_id)
            job = WriterJob(
                job_id,
                [],
                url=url,
                ready_at=time.monotonic() + script.seconds,
                final_answer=script.final_answer,
            )
            self.jobs[job_id] = self.watched[job_id] = job
        return await super().answer(request, body)


def overlaps(spans: list[tuple[float, float, str]]) -> list[tuple[str, str]]:
    """Neighbours in time that overlap."""
    found = []
    latest: tuple[float, str] | None = None
    for began, ended, name in sorted(spans):
        if latest is not None and began < latest[0]:
            found.append((latest[1], name))
        if latest is None or ended > latest[0]:
            latest = (ended, name)
    return found
