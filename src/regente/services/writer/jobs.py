"""Jobs as rows: accepted once, claimed under a lease, advanced batch by batch, ended once."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from regente.contracts.writer import ProcessRequest, Target, WriterStatus
from regente.services.writer.batch import Failed
from regente.services.writer.config import WriterConfig
from regente.services.writer.failures import JobFailure, LeaseLost
from regente.services.writer.header_cipher import HeaderCipher
from regente.services.writer.queries import QUERIES
from regente.services.writer.source import Version, safe_url

_KEPT_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class Accepted:
    job_id: str
    status: WriterStatus
    created_at: datetime


class JobIdConflict(Exception):
    """The job_id belongs to a different request."""


class TooManyWaiting(Exception):
    """The writer has its maximum number of unfinished jobs."""


@dataclass(slots=True)
class Job:
    """One claimed job and its progress."""

    job_id: str
    target: Target
    url: str
    headers: dict[str, str] = field(repr=False)
    json_path: str
    claims: int
    processed: int = 0
    success_count: int = 0
    failed_count: int = 0
    version: Version | None = None

    def __repr__(self) -> str:
        return f"<Job {self.job_id} at {self.processed}>"


class Jobs:
    def __init__(
        self, pool: AsyncConnectionPool[AsyncConnection[Any]], config: WriterConfig
    ) -> None:
        self._pool = pool
        self._config = config
        self._owner = uuid.uuid4().hex
        self._headers = HeaderCipher(config.api_key)
        self._writer = self._headers.key_id
        self._lease = timedelta(seconds=config.lease_seconds)

    async def accept(self, request: ProcessRequest) -> Accepted:
        job_id = request.job_id or str(uuid.uuid4())
        fingerprint = _fingerprint(request)
        async with self._cursor() as cursor:
            which = {"job_id": job_id, "writer": self._writer}
            await cursor.execute(QUERIES["known_job"], which)
            known = await cursor.fetchone()
            if known is None:
                await self._make_room(cursor)
                row = _row(request) | which | {"fingerprint": fingerprint}
                row["headers"] = Jsonb(self._headers.encrypt(request.source.headers))
                await cursor.execute(QUERIES["accept_job"], row)
                made = await cursor.fetchone()
                if made:
                    return Accepted(job_id, WriterStatus.PROCESSING, made["created_at"])
                await cursor.execute(QUERIES["known_job"], which)
                known = await cursor.fetchone()
        assert known is not None
        if known["fingerprint"] != fingerprint or not known["own"]:
            raise JobIdConflict(job_id)
        return Accepted(job_id, WriterStatus(known["status"]), known["created_at"])

    async def _make_room(self, cursor: AsyncCursor[DictRow]) -> None:
        which = {"limit": self._config.waiting_jobs, "writer": self._writer}
        await cursor.execute(QUERIES["count_unfinished"], which)
        found = await cursor.fetchone()
        if found and found["count"] >= self._config.waiting_jobs:
            raise TooManyWaiting

    async def claim(self) -> Job | None:
        async with self._cursor() as cursor:
            which = {"owner": self._owner, "lease": self._lease, "writer": self._writer}
            await cursor.execute(QUERIES["claim_job"], which)
            row = await cursor.fetchone()
        if row is None:
            return None
        target = Target.model_validate(row["target"])
        job = Job(
            row["job_id"],
            target,
            row["url"],
            self._headers.decrypt(row["headers"]),
            row["json_path"],
            row["claims"],
        )
        _set_progress(job, row)
        return job

    async def refresh(self, job: Job) -> None:
        """Read the job's progress after a commit whose result is unknown."""
        async with self._cursor() as cursor:
            await cursor.execute(
                QUERIES["read_progress"], {"job_id": job.job_id, "owner": self._owner}
            )
            row = await cursor.fetchone()
        if row is None:
            raise LeaseLost(job.job_id)
        _set_progress(job, row)

    async def renew(self, job_ids: Sequence[str]) -> None:
        await self._run(
            "renew_leases", {"job_ids": list(job_ids), "owner": self._owner, "lease": self._lease}
        )

    async def hand_back(self, job: Job) -> None:
        await self._run("hand_back", {"job_id": job.job_id, "owner": self._owner})

    async def note_source(self, job: Job, version: Version) -> None:
        values = {
            "etag": version.etag,
            "length": version.length,
            "job_id": job.job_id,
            "owner": self._owner,
        }
        if not await self._run("note_source", values):
            raise LeaseLost(job.job_id)
        job.version = version

    async def note_progress(
        self, connection: AsyncConnection[Any], job: Job, size: int, failed: Sequence[Failed]
    ) -> None:
        """Record progress with its rows; raises LeaseLost, which rolls both back."""
        items = [(job.job_id, one.index, one.data[:_KEPT_CHARACTERS], one.error) for one in failed]
        async with connection.cursor() as cursor:
            if items:
                await cursor.executemany(QUERIES["note_failed_item"], items)
            values = {
                "success": size - len(failed),
                "failed": len(failed),
                "before": job.processed,
                "lease": self._lease,
            }
            await cursor.execute(
                QUERIES["note_progress"], {**values, "job_id": job.job_id, "owner": self._owner}
            )
            if cursor.rowcount != 1:
                raise LeaseLost(job.job_id)

    async def end(
        self, job: Job, status: WriterStatus, failure: JobFailure | None, *, total: int | None
    ) -> None:
        """End the job, and delete what may be secret: the headers and the URL's query."""
        ended = await self._run(
            "end_job",
            {
                "job_id": job.job_id,
                "owner": self._owner,
                "status": status,
                "total": total,
                "error": failure.message if failure else None,
                "error_code": failure.code if failure else None,
                "safe_url": safe_url(job.url),
            },
        )
        if not ended:
            raise LeaseLost(job.job_id)

    async def delete_old(self) -> None:
        await self._run("forget_jobs", {"keep": timedelta(days=self._config.keep_days)})

    async def status(self, job_id: str) -> tuple[DictRow, list[DictRow]] | None:
        async with self._cursor() as cursor:
            which = {"job_id": job_id, "writer": self._writer}
            await cursor.execute(QUERIES["job_status"], which)
            found = await cursor.fetchone()
            if found is None:
                return None
            await cursor.execute(
                QUERIES["job_failed_items"],
                {"job_id": job_id, "limit": self._config.shown_failed_items},
            )
            return found, await cursor.fetchall()

    async def ping(self) -> None:
        await self._run("ping", {})

    async def _run(self, name: str, values: dict[str, Any]) -> int:
        async with self._cursor() as cursor:
            await cursor.execute(QUERIES[name], values)
            return cursor.rowcount

    @contextlib.asynccontextmanager
    async def _cursor(self) -> AsyncIterator[AsyncCursor[DictRow]]:
        async with (
            self._pool.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            yield cursor


def _fingerprint(request: ProcessRequest) -> bytes:
    """Hash of the request without its headers: a fresh token does not make another job."""
    known = request.model_dump_json(by_alias=True, exclude={"job_id": True, "source": {"headers"}})
    return hashlib.sha256(known.encode()).digest()


def _row(request: ProcessRequest) -> dict[str, Any]:
    return {
        "target": Jsonb(request.config.model_dump(by_alias=True)),
        "url": request.source.url,
        "json_path": request.source.json_path,
    }


def _set_progress(job: Job, row: DictRow) -> None:
    job.processed, job.success_count, job.failed_count = (
        row["processed"],
        row["success_count"],
        row["failed_count"],
    )
    known = row["etag"] is not None or row["source_length"] is not None
    job.version = Version(row["etag"], row["source_length"]) if known else None
