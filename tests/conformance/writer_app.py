"""An independent writer: correct except for injected faults. It reads its source over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from regente.contracts.writer import ProcessRequest

KEY = "a-key-for-the-writer"
NOW = "2025-01-15T10:30:00Z"
MAX_BODY = 1 << 20
TABLES = ("ads",)


@dataclass(slots=True)
class Job:
    request: ProcessRequest
    looked: int = 0
    status: str = "failed"
    total: int = 0
    failed: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class WriterApp:
    faults: frozenset[str] = frozenset()
    replies: dict[str, Callable[[], Awaitable[Response]]] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)

    def app(self) -> FastAPI:
        app = FastAPI()
        app.add_api_route("/health", self.health, methods=["GET"])
        app.add_api_route("/process", self._locked("POST /process", self.process), methods=["POST"])
        app.add_api_route(
            "/status/{job_id}", self._locked("GET /status/{job_id}", self.status), methods=["GET"]
        )
        return app

    def _locked(
        self, name: str, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if request.headers.get("x-api-key") != KEY and f"open {name}" not in self.faults:
                return JSONResponse({"detail": "no"}, 401)
            return await self.replies[name]() if name in self.replies else await handler(request)

        return answer

    async def health(self, request: Request) -> Response:
        if "health needs a key" in self.faults and request.headers.get("x-api-key") != KEY:
            return JSONResponse({}, 401)
        return JSONResponse({"status": "ok" if "health is ok" in self.faults else "healthy"})

    async def process(self, request: Request) -> Response:
        body = await request.body()
        if len(body) > MAX_BODY and "no size limit" not in self.faults:
            return JSONResponse({"detail": "too large"}, 413)
        try:
            asked = ProcessRequest.model_validate_json(body)
        except ValidationError as error:
            kind = f"takes {'.'.join(map(str, error.errors()[0]['loc']))}"
            return JSONResponse(
                {"job_id": "any"} if kind in self.faults else {"detail": kind},
                200 if kind in self.faults else 422,
            )
        self.requests.append(await request.json())
        if asked.job_id is None and "needs a job_id" in self.faults:
            return JSONResponse({"detail": "no job_id"}, 422)
        if asked.config.table not in TABLES and "refuses tables at once" in self.faults:
            return JSONResponse({"detail": "no such table"}, 422)
        return JSONResponse(await self._accept(asked))

    async def _accept(self, asked: ProcessRequest) -> dict[str, Any]:
        job_id = asked.job_id or str(uuid.uuid4())
        if "names jobs itself" in self.faults:
            job_id = str(uuid.uuid4())
        if job_id not in self.jobs or "runs again" in self.faults:
            self.jobs[job_id] = Job(asked)
            await self._run(self.jobs[job_id])
        status = {} if "accepts without a status" in self.faults else {"status": "processing"}
        return {"job_id": job_id, **status, "created_at": NOW}

    async def _run(self, job: Job) -> None:
        source = job.request.source
        headers = {} if "drops source headers" in self.faults else source.headers
        async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
            reply = await client.get(source.url, headers=headers)
        if reply.status_code != 200 and "a missing source is empty" in self.faults:
            job.status = "completed"
        if reply.status_code != 200 or (
            job.request.config.table not in TABLES and "makes tables" not in self.faults
        ):
            return
        rows = reply.json()[source.json_path]
        key = job.request.config.conflict_key
        shift = 1 if "counts from one" in self.faults else 0
        bad = [(index, row) for index, row in enumerate(rows) if row.get(key) is None]
        job.failed = [
            {"index": index + shift, "data": row, "error": "null in the key"} for index, row in bad
        ]
        job.total, job.status = len(rows), "partial" if job.failed else "completed"
        self._spoil(job)

    def _spoil(self, job: Job) -> None:
        if "says completed" in self.faults:
            job.status = "completed"
        if "failed without an error" in self.faults:
            del job.failed[0]["error"]

    async def status(self, request: Request) -> Response:
        job_id = request.path_params["job_id"]
        job = self.jobs.get(job_id)
        if job is None:
            return JSONResponse(
                {"job_id": job_id, "status": "failed"},
                200 if "unknown job is 200" in self.faults else 404,
            )
        job.looked += 1
        if job.looked == 1:
            odd = "busy" if "odd status" in self.faults else "processing"
            early = {"total": None, "processed": 0, "success_count": 0, "failed_count": 0}
            if "processes more than there are" in self.faults:
                early.update(total=1, processed=2)
            return JSONResponse(
                {
                    "job_id": job_id,
                    "status": odd,
                    "progress": early,
                    "failed_items": [],
                    "started_at": NOW,
                }
            )
        return JSONResponse(self._ended(job_id, job))

    def _ended(self, job_id: str, job: Job) -> dict[str, Any]:
        lost = 1 if "loses a row" in self.faults and job.total else 0
        good = job.total - len(job.failed) - lost
        progress: dict[str, Any] = {
            "total": job.total,
            "processed": job.total,
            "success_count": good,
            "failed_count": len(job.failed),
        }
        if "counts in text" in self.faults:
            progress["success_count"] = str(good)
        found = {
            "job_id": job_id,
            "status": job.status,
            "progress": progress,
            "failed_items": job.failed,
            "started_at": NOW,
            "completed_at": "soon" if "ends soon" in self.faults else NOW,
        }
        if "no started_at" in self.faults:
            del found["started_at"]
        return found
