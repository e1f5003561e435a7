"""The Worker API (9.1 of the original specification) over HTTP, and the results at `/storage`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from regente.contracts.worker import (
    IDEMPOTENCY_HEADER,
    WITHOUT_DATA,
    ScrapeAccepted,
    ScrapeStatus,
    Session,
)
from regente.services.worker.ad_library import AdLibrary
from regente.services.worker.errors import Refused, add_error_handlers
from regente.services.worker.files import FolderLock
from regente.services.worker.jobs import JobStore
from regente.services.worker.middleware import RequestGuard
from regente.services.worker.requests import WorkerScrape, WorkerSessionRequest
from regente.services.worker.settings import WorkerSettings
from regente.services.worker.source import Source
from regente.services.worker.storage import FolderStorage, Storage, StoredResults
from regente.services.worker.worker import Worker

STORAGE_PREFIX = "/storage"


def create_app(
    settings: WorkerSettings, *, source: Source | None = None, storage: Storage | None = None
) -> FastAPI:
    """A worker's application; the default source is the ad library at `settings.target`."""
    lock = FolderLock(settings.data_dir)
    stored = storage or FolderStorage(settings.data_dir / "storage")
    jobs = JobStore(settings.data_dir / "jobs", stored)
    found = source or AdLibrary(
        settings.target,
        timeout_seconds=settings.request_timeout_seconds,
        connect_timeout_seconds=settings.connect_timeout_seconds,
    )
    worker = Worker(settings, found, stored, jobs)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        try:
            jobs.load()
            yield
            await worker.close()
        finally:
            lock.close()

    app = FastAPI(title="Regente worker", lifespan=life, docs_url=None, redoc_url=None)
    add_error_handlers(app)
    _add_session_routes(app, worker)
    _add_scrape_routes(app, worker, stored)
    _add_open_routes(app, stored)
    _add_guard(app, settings)
    return app


def _add_guard(app: FastAPI, settings: WorkerSettings) -> None:
    def is_open(path: str) -> bool:
        return path == "/health" or (
            path.startswith(f"{STORAGE_PREFIX}/") and not settings.storage_needs_key
        )

    app.add_middleware(
        RequestGuard,
        api_key=settings.api_key.get_secret_value(),
        max_body_bytes=settings.max_body_bytes,
        requests_per_minute=settings.requests_per_minute,
        is_open=is_open,
    )


def _add_session_routes(app: FastAPI, worker: Worker) -> None:
    @app.post("/session")
    async def open_session(request: WorkerSessionRequest) -> Session:
        return await worker.open_session(request)

    @app.get("/session/status")
    async def session_status() -> Session:
        return worker.session()

    @app.delete("/session")
    async def end_session() -> Session:
        return await worker.end_session()


def _add_scrape_routes(app: FastAPI, worker: Worker, storage: Storage) -> None:
    @app.post("/scrape")
    async def start_scrape(
        request: WorkerScrape,
        key: Annotated[
            str | None, Header(alias=IDEMPOTENCY_HEADER, min_length=1, max_length=200)
        ] = None,
    ) -> ScrapeAccepted:
        job = await worker.start_scrape(request, key)
        return ScrapeAccepted(job_id=job.job_id)

    @app.get("/scrape/{job_id}", response_model=None)
    async def scrape_status(
        job_id: str,
        data: Annotated[bool | None, Query()] = None,
        prefer: Annotated[str, Header()] = "",
    ) -> dict[str, Any] | StreamingResponse:
        """With the ads as `data`, unless the caller prefers the status alone."""
        job = worker.jobs.get(job_id)
        if data is False or (data is None and prefer == WITHOUT_DATA["prefer"]):
            return job.as_response()
        results = storage.find(job_id) if job.finished else None
        if results is None:
            has_none = job.status is not ScrapeStatus.COMPLETED  # otherwise they are gone
            return job.as_response() | ({"data": []} if has_none else {})
        return StreamingResponse(
            _with_data(job.as_response(), job_id, storage, results), media_type="application/json"
        )

    @app.post("/scrape/{job_id}/cancel")
    async def cancel_scrape(job_id: str) -> dict[str, Any]:
        return (await worker.cancel(job_id)).as_response()


def _add_open_routes(app: FastAPI, storage: Storage) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.api_route(
        STORAGE_PREFIX + "/{job_id}/{name}", methods=["GET", "HEAD"], response_model=None
    )
    async def results(request: Request, job_id: str, name: str) -> Response:
        found = _find(storage, job_id) if name == f"{job_id}_results.json" else None
        if found is None:
            raise Refused(404, "results_not_found", "there are no complete results with this name")
        headers = {"Content-Length": str(found.size)}
        if request.method == "HEAD":
            return Response(headers=headers, media_type="application/json")
        return StreamingResponse(
            storage.read(job_id, 0, found.size), media_type="application/json", headers=headers
        )


def _find(storage: Storage, job_id: str) -> StoredResults | None:
    try:
        return storage.find(job_id)
    except FileNotFoundError:
        return None


async def _with_data(
    status: dict[str, Any], job_id: str, storage: Storage, results: StoredResults
) -> AsyncIterator[bytes]:
    yield json.dumps(status)[:-1].encode() + b', "data": '
    async for piece in storage.read(job_id, results.ads_start, results.ads_stop):
        yield piece
    yield b"}"
