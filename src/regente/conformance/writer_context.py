"""State that the checks of a Writer share: payloads, routes, and the results of earlier checks."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urljoin

from regente.conformance.checks import CheckFailed, CheckInconclusive
from regente.conformance.http import Reply, Service
from regente.conformance.polling import StatusHistory, poll_status
from regente.conformance.source import LocalSource
from regente.contracts.writer import ProcessRequest, Source, Target, WriterStatus

OVERSIZE_BYTES = 16 << 20
MAX_JOB_BYTES = 8 << 20
"""Limit of a job's status, which may carry every failed row."""

FINAL_JOBS = frozenset({WriterStatus.COMPLETED, WriterStatus.FAILED, WriterStatus.PARTIAL})


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """Options; without `source_url` a built-in document is served on loopback."""

    url: str
    api_key: str = field(repr=False)
    source_url: str | None = None
    table: str = "ads"
    schema: str = "public"
    conflict_key: str = "id"
    timeout_seconds: float = 180.0
    request_seconds: float = 10.0
    oversize_bytes: int = OVERSIZE_BYTES

    def payload(
        self,
        source_url: str,
        *,
        table: str | None = None,
        job_id: str | None = None,
        **headers: str,
    ) -> dict[str, Any]:
        target = Target(
            table=table or self.table, schema=self.schema, conflict_key=self.conflict_key
        )
        request = ProcessRequest(
            job_id=job_id, config=target, source=Source(url=source_url, headers=headers)
        )
        dumped = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        if not headers:
            del dumped["source"]["headers"]
        return dumped


@dataclass(slots=True)
class WriterContext:
    """State; `local` is the built-in document, if it is served."""

    options: WriterOptions
    service: Service
    local: LocalSource | None
    token: str = field(repr=False)
    wanted_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    accepted: Reply | None = None
    job_id: str | None = None
    job: StatusHistory | None = None

    @property
    def source_url(self) -> str:
        return self.local.url if self.local else self.options.source_url or ""

    @property
    def missing_url(self) -> str:
        return urljoin(self.source_url, f"missing-{secrets.token_hex(8)}.json")

    def keyed_payload(self) -> dict[str, Any]:
        """The complete request of 9.2. Only the built-in source gets the header that is checked."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.local else {}
        return self.options.payload(self.source_url, job_id=self.wanted_id, **headers)

    async def process(self, payload: Any) -> Reply:
        return await self.service.post("/process", payload)

    async def status(self, job_id: str) -> Reply:
        return await self.service.get(f"/status/{quote(job_id, safe='')}", max_bytes=MAX_JOB_BYTES)

    async def poll_job(self, job_id: str) -> StatusHistory:
        return await poll_status(
            lambda: self.status(job_id),
            known=WriterStatus,
            final=FINAL_JOBS,
            within_seconds=self.options.timeout_seconds,
        )

    def ended_job(self) -> StatusHistory:
        if self.job is None or self.job.final is None:
            raise CheckInconclusive("no job ended")
        return self.job


def job_id_of(reply: Reply) -> str:
    job_id = reply.expect_accepted().document().get("job_id")
    if not isinstance(job_id, str) or not 0 < len(job_id) <= 100:
        raise CheckFailed(f"{reply}; expected a `job_id` of 1 to 100 characters")
    return job_id


__all__ = ["WriterContext", "WriterOptions", "job_id_of"]
