"""State that the checks of a Worker share: payloads, routes, and the results of earlier checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal
from urllib.parse import quote

from regente.conformance.checks import CheckFailed
from regente.conformance.http import Reply, Service
from regente.conformance.polling import StatusHistory, poll_status
from regente.contracts.worker import (
    DateRange,
    Filters,
    ProxyAddress,
    ScrapeRequest,
    ScrapeStatus,
    SessionRequest,
    SessionStatus,
)

OVERSIZE_BYTES = 16 << 20
MAX_JOB_BYTES = 8 << 20
"""Limit of a job's status, which may carry its `data`."""

_SETTLE_SECONDS = 5.0

FINAL_SCRAPES = frozenset(
    {
        ScrapeStatus.COMPLETED,
        ScrapeStatus.EMPTY,
        ScrapeStatus.FAILED,
        ScrapeStatus.CANCELLED,
        ScrapeStatus.PAUSED,
    }
)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options; `timeout_seconds` bounds a session's start and a job."""

    url: str
    api_key: str = field(repr=False)
    start: date
    end: date
    media_format: Literal["all", "video", "image"] = "all"
    languages: tuple[str, ...] = ("pt",)
    proxy_server: str | None = None
    proxy_username: str | None = None
    proxy_password: str | None = field(default=None, repr=False)
    storage_domain: str | None = None
    timeout_seconds: float = 180.0
    request_seconds: float = 10.0
    oversize_bytes: int = OVERSIZE_BYTES

    def session_payload(self) -> dict[str, Any]:
        proxy = None
        if self.proxy_server:
            if "@" in self.proxy_server:
                raise ValueError(
                    "the proxy's address holds a user or a password: give them as separate options"
                )
            proxy = ProxyAddress(
                server=self.proxy_server, username=self.proxy_username, password=self.proxy_password
            )
        return SessionRequest(force_refresh=True, proxy=proxy).model_dump(
            mode="json", exclude_none=True
        )

    def scrape_payload(self) -> dict[str, Any]:
        dates = DateRange(start=self.start, end=self.end)
        filters = Filters(
            date_range=dates, format=self.media_format, languages=list(self.languages)
        )
        return ScrapeRequest(filters=filters).model_dump(mode="json")


@dataclass(slots=True)
class WorkerContext:
    options: WorkerOptions
    service: Service
    session: StatusHistory | None = None
    job_id: str | None = None
    job: StatusHistory | None = None

    @property
    def session_ready(self) -> bool:
        return self.session is not None and self.session.final == "ready"

    async def session_status(self) -> Reply:
        return await self.service.get("/session/status")

    async def scrape(
        self, payload: dict[str, Any] | None = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        return await self.service.post(
            "/scrape", payload or self.options.scrape_payload(), headers=headers
        )

    async def status(self, job_id: str) -> Reply:
        return await self.service.get(job_path(job_id), max_bytes=MAX_JOB_BYTES)

    async def cancel(self, job_id: str) -> Reply:
        return await self.service.post(f"{job_path(job_id)}/cancel")

    async def poll_job(self, job_id: str) -> StatusHistory:
        return await poll_status(
            lambda: self.status(job_id),
            known=ScrapeStatus,
            final=FINAL_SCRAPES,
            within_seconds=self.options.timeout_seconds,
        )

    async def wait_until_ready(self) -> None:
        """Wait until the session is ready again, which may be shortly after the job's end."""
        within = min(_SETTLE_SECONDS, self.options.timeout_seconds)
        await poll_status(
            self.session_status,
            known=SessionStatus,
            final={SessionStatus.READY},
            within_seconds=within,
        )

    async def cancel_started(self, reply: Reply) -> None:
        """Cancel the job that this reply started, so that it does not block later checks."""
        job_id = job_id_of(reply)
        if job_id is not None:
            await self.cancel(job_id)
            await self.poll_job(job_id)


def job_path(job_id: str) -> str:
    return f"/scrape/{quote(job_id, safe='')}"


def job_id_of(reply: Reply) -> str | None:
    """Return the job_id of a reply, or None without a usable one."""
    try:
        found = reply.expect_accepted().document().get("job_id")
    except CheckFailed:
        return None
    return found if isinstance(found, str) and 0 < len(found) <= 100 else None
