"""The Writer API (specification, 9.2) as an application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

import psycopg
from fastapi import Depends, FastAPI, HTTPException, Path, Request

from regente.address_guard import AddressRefused, check_url
from regente.contracts.writer import Health, ProcessAccepted, ProcessRequest, WriterJob
from regente.services.writer.config import WriterConfig
from regente.services.writer.database import make_pool, prepare_database
from regente.services.writer.job_run import JobRun
from regente.services.writer.jobs import JobIdConflict, Jobs, TooManyWaiting
from regente.services.writer.middleware import RequestGuard
from regente.services.writer.responses import add_error_handlers, invalid_field, job_response
from regente.services.writer.runner import Runner
from regente.services.writer.source import Sources

_HEALTH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer's state, which its routes use while the application runs."""

    config: WriterConfig
    jobs: Jobs
    runner: Runner


def create_app(config: WriterConfig) -> FastAPI:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _running(config) as writer:
            app.state.writer = writer
            yield

    app = FastAPI(title="Regente writer", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(RequestGuard, config=config)
    app.add_api_route("/process", process, methods=["POST"], response_model=ProcessAccepted)
    app.add_api_route("/status/{job_id}", status, methods=["GET"], response_model=WriterJob)
    app.add_api_route("/health", health, methods=["GET"], response_model=Health)
    add_error_handlers(app)
    return app


@contextlib.asynccontextmanager
async def _running(config: WriterConfig) -> AsyncIterator[Writer]:
    await prepare_database(config)
    sources = Sources(config)
    try:
        async with make_pool(config) as pool:
            jobs = Jobs(pool, config)
            runner = Runner(jobs, JobRun(jobs, pool, sources, config), config)
            runner.start()
            try:
                yield Writer(config, jobs, runner)
            finally:
                await runner.stop()
    finally:
        await sources.close()


def _writer(request: Request) -> Writer:
    writer: Writer = request.app.state.writer
    return writer


WriterDep = Annotated[Writer, Depends(_writer)]


async def process(body: ProcessRequest, writer: WriterDep) -> ProcessAccepted:
    _check_request(body, writer.config)
    try:
        accepted = await writer.jobs.accept(body)
    except JobIdConflict:
        raise invalid_field(("body", "job_id"), "this job_id belongs to another request") from None
    except psycopg.DataError:
        raise invalid_field(
            ("body",), "the body has a text that cannot be stored; perhaps \\u0000"
        ) from None
    except TooManyWaiting:
        raise HTTPException(429, "too many jobs are waiting", {"retry-after": "30"}) from None
    writer.runner.wake()
    return ProcessAccepted(
        job_id=accepted.job_id, status=accepted.status, created_at=accepted.created_at
    )


async def status(job_id: Annotated[str, Path(max_length=100)], writer: WriterDep) -> WriterJob:
    found = await writer.jobs.status(job_id) if "\0" not in job_id else None
    if found is None:
        raise HTTPException(404, f"there is no job {job_id!r}")
    return job_response(*found)


async def health(writer: WriterDep) -> Health:
    try:
        async with asyncio.timeout(_HEALTH_SECONDS):
            await writer.jobs.ping()
    except (psycopg.Error, TimeoutError):
        raise HTTPException(500, "the database does not answer") from None
    return Health(status="healthy")


def _check_request(body: ProcessRequest, config: WriterConfig) -> None:
    target = f"{body.config.schema_}.{body.config.table}"
    if target not in config.targets:
        raise invalid_field(
            ("body", "config", "table"), f"{target} is not a table that this writer may write to"
        )
    try:
        check_url(body.source.url, allow_private=config.allow_private)
    except AddressRefused as error:
        raise invalid_field(("body", "source", "url"), error.message) from None
