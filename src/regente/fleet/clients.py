"""Clients of the Worker API and the Writer API (specification, 9.1 and 9.2)."""

from __future__ import annotations

from urllib.parse import quote

from pydantic import BaseModel

from regente.contracts.worker import (
    IDEMPOTENCY_HEADER,
    ScrapeAccepted,
    ScrapeJob,
    ScrapeRequest,
    Session,
    SessionRequest,
)
from regente.contracts.writer import Health, ProcessAccepted, ProcessRequest, WriterJob
from regente.fleet.models import Proxy, Worker, Writer
from regente.http_client.client import HttpClient


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
            "GET", f"{self._url}/scrape/{_quoted(job_id)}", api_key=self._key, answer=ScrapeJob
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


def _quoted(job_id: str) -> str:
    """Quote an untrusted job id, so that it cannot change the path."""
    return quote(job_id, safe="")
