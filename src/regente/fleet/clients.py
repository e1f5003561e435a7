"""Clients of the Worker API and the Writer API (specification, 9.1 and 9.2), and the retries of
these calls."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from regente.contracts.worker import (
    IDEMPOTENCY_HEADER,
    WITHOUT_DATA,
    ScrapeAccepted,
    ScrapeJob,
    ScrapeRequest,
    Session,
    SessionRequest,
)
from regente.contracts.writer import Health, ProcessAccepted, ProcessRequest, WriterJob
from regente.engine.task import Task
from regente.fleet.models import Proxy, Worker, Writer
from regente.http_client.client import TRANSIENT, CallFailed, CallFailure, HttpClient

T = TypeVar("T")
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0
MAX_THROTTLES = 10
DEFAULT_THROTTLE_SECONDS = 60.0
MIN_THROTTLE_SECONDS = 0.5
MAX_THROTTLE_SECONDS = 86_400.0
END_SESSION_SECONDS = 5.0


class _IgnoredBody(BaseModel):
    """A response body that is ignored: the contract requires only 200."""


class WorkerClient:
    def __init__(self, http: HttpClient, worker: Worker) -> None:
        self._http = http
        self._key = worker.api_key
        self._url = worker.url.rstrip("/")

    async def open_session(self, proxy: Proxy | None) -> None:
        request = SessionRequest(force_refresh=True, proxy=proxy.address if proxy else None)
        await self._http.call(
            "POST", f"{self._url}/session", api_key=self._key, body=request, answer=_IgnoredBody
        )

    async def session(self) -> Session:
        return await self._http.call(
            "GET", f"{self._url}/session/status", api_key=self._key, answer=Session
        )

    async def end_session(self) -> None:
        await self._http.call(
            "DELETE", f"{self._url}/session", api_key=self._key, answer=_IgnoredBody
        )

    async def scrape(self, request: ScrapeRequest, key: str) -> str:
        accepted = await self._http.call(
            "POST",
            f"{self._url}/scrape",
            api_key=self._key,
            body=request,
            headers={IDEMPOTENCY_HEADER: key},
            answer=ScrapeAccepted,
        )
        return accepted.job_id

    async def job(self, job_id: str) -> ScrapeJob:
        return await self._http.call(
            "GET",
            f"{self._url}/scrape/{_quoted(job_id)}",
            api_key=self._key,
            headers=WITHOUT_DATA,
            answer=ScrapeJob,
        )

    async def cancel(self, job_id: str) -> None:
        await self._http.call(
            "POST",
            f"{self._url}/scrape/{_quoted(job_id)}/cancel",
            api_key=self._key,
            answer=_IgnoredBody,
        )


class WriterClient:
    def __init__(self, http: HttpClient, writer: Writer) -> None:
        self._http = http
        self._key = writer.api_key
        self._url = writer.url.rstrip("/")

    async def process(self, request: ProcessRequest) -> str:
        accepted = await self._http.call(
            "POST", f"{self._url}/process", api_key=self._key, body=request, answer=ProcessAccepted
        )
        return accepted.job_id

    async def job(self, job_id: str) -> WriterJob:
        return await self._http.call(
            "GET", f"{self._url}/status/{_quoted(job_id)}", api_key=self._key, answer=WriterJob
        )

    async def health(self) -> str:
        return (await self._http.call("GET", f"{self._url}/health", answer=Health)).status


async def with_retries(
    task: Task[Any],
    call: Callable[[], Awaitable[T]],
    seconds: float,
    *,
    rests: bool = True,
    retried: frozenset[CallFailure] = TRANSIENT,
) -> T:
    """The call's answer. A failure that is `retried` is so for so many seconds, so the call must be
    one that may be repeated.

    The wait after a 429 does not count, up to a limit. Without `rests` a 429 is raised at once.
    """
    rest_seconds = MAX_THROTTLES * seconds
    deadline = time.monotonic() + seconds
    pause_seconds = min(FIRST_PAUSE_SECONDS, seconds / 10)
    while True:
        try:
            return await call()
        except CallFailed as error:
            if error.failure is CallFailure.THROTTLED and rests:
                wanted_seconds = max(pause_seconds, error.retry_after or 0.0)
                rest_seconds -= wanted_seconds
                if rest_seconds < 0:
                    raise
                await _wait_throttled(task, wanted_seconds)
                deadline += wanted_seconds
                continue
            if error.failure not in retried:
                raise
            if time.monotonic() + pause_seconds > deadline:
                raise
        await task.heartbeat()
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 2, MAX_PAUSE_SECONDS)


def throttle_delay(retry_after: float | None) -> float:
    """Delay after a 429, clamped to 0.5 s to 24 h; 60 s without Retry-After."""
    seconds = DEFAULT_THROTTLE_SECONDS if retry_after is None else retry_after
    return min(max(seconds, MIN_THROTTLE_SECONDS), MAX_THROTTLE_SECONDS)


async def end_session_best_effort(task: Task[Any], client: WorkerClient, seconds: float) -> None:
    """End a worker's session and the job in it, with a few seconds of retries: a session that
    lives on uses a proxy, or scrapes a mission, that another worker is given."""
    task.check_lease()
    with contextlib.suppress(CallFailed):
        await with_retries(task, client.end_session, min(END_SESSION_SECONDS, seconds))


async def _wait_throttled(task: Task[Any], seconds: float) -> None:
    """Sleep, with heartbeats."""
    until = time.monotonic() + seconds
    while (left_seconds := until - time.monotonic()) > 0:
        await task.heartbeat()
        await asyncio.sleep(min(left_seconds, MAX_PAUSE_SECONDS))


def _quoted(job_id: str) -> str:
    """Quote an untrusted job id, so that it cannot change the path."""
    return quote(job_id, safe="")
