"""Jobs and their files: a job is on disk before it is acknowledged, and survives a crash."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field, ValidationError

from regente.contracts.worker import Cause, Problem, ScrapeJob, ScrapeRequest, ScrapeStatus
from regente.services.worker.errors import Refused, logger
from regente.services.worker.files import replace_file
from regente.services.worker.storage import Storage

FINISHED = frozenset(
    {
        ScrapeStatus.COMPLETED,
        ScrapeStatus.EMPTY,
        ScrapeStatus.FAILED,
        ScrapeStatus.CANCELLED,
        ScrapeStatus.PAUSED,
    }
)
_DAY_SECONDS = 86_400


class Job(ScrapeJob):
    """The job of the contract, and the fields that the worker keeps for itself."""

    job_id: str
    request: ScrapeRequest
    key: str | None = None
    duplicates: int = Field(0, ge=0)
    expected_count: int | None = Field(None, ge=0, description="the target's own total")
    created_at: float
    ended_at: float | None = None

    @property
    def finished(self) -> bool:
        return self.status in FINISHED

    def end(self, status: ScrapeStatus, problem: Problem | None = None) -> None:
        self.status, self.problem, self.ended_at = status, problem, time.time()

    def as_response(self) -> dict[str, Any]:
        """The response of `GET /scrape/{job_id}`."""
        shown = {
            "job_id",
            "status",
            "ads_count",
            "progress_pct",
            "problem",
            "duplicates",
            "expected_count",
        }
        return self.model_dump(mode="json", include=shown)


class JobStore:
    def __init__(self, folder: Path, storage: Storage) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._storage = storage
        self._jobs: dict[str, Job] = {}
        self._by_key: dict[str, str] = {}

    def load(self) -> None:
        """Load the jobs from disk, and end those that ran when an earlier process died."""
        self._storage.discard_drafts()
        for job in _read_all(self._folder):
            self._remember(job)
            if not job.finished:
                self._end_orphan(job)

    def get(self, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job is None:
            raise Refused(404, "job_not_found", "there is no such job")
        return job

    def find_by_key(self, key: str, request: ScrapeRequest) -> Job | None:
        job = self._jobs.get(self._by_key.get(key, ""))
        if job is not None and _digest(job.request) != _digest(request):
            raise Refused(
                422,
                "idempotency_key_reused",
                f"this idempotency key belongs to job {job.job_id}, with another request",
            )
        return job

    def create(self, request: ScrapeRequest, key: str | None) -> Job:
        job = Job(
            job_id=f"scrape_{secrets.token_hex(16)}",  # its results are open to who knows it
            request=request,
            key=key,
            status=ScrapeStatus.PENDING,
            ads_count=0,
            created_at=time.time(),
        )
        self.save(job)
        self._remember(job)
        return job

    def save(self, job: Job) -> None:
        replace_file(self._folder / f"{job.job_id}.json", job.model_dump_json().encode())

    def forget_older_than(self, days: float) -> None:
        before = time.time() - days * _DAY_SECONDS
        old = [
            job
            for job in self._jobs.values()
            if job.finished and (job.ended_at or job.created_at) < before
        ]
        for job in old:
            (self._folder / f"{job.job_id}.json").unlink(missing_ok=True)
            self._by_key.pop(job.key or "", None)
            del self._jobs[job.job_id]
        self._storage.remove(job.job_id for job in old)

    def _remember(self, job: Job) -> None:
        self._jobs[job.job_id] = job
        if job.key is not None:
            self._by_key[job.key] = job.job_id

    def _end_orphan(self, job: Job) -> None:
        results = self._storage.find(job.job_id)
        if results is None:
            job.end(
                ScrapeStatus.FAILED,
                Problem(cause=Cause.WORKER, message="the worker died while this job was running"),
            )
        else:  # the process died after publishing the results and before saving the job
            complete(job, results.summary)
        logger.warning("job %s was running when an earlier worker died: %s", job.job_id, job.status)
        self.save(job)


def complete(job: Job, summary: dict[str, Any]) -> None:
    """Set the job's end and counts from the summary in its results."""
    job.ads_count, job.duplicates = summary["ads_count"], summary["duplicates"]
    job.expected_count = summary["expected_count"]
    job.progress_pct = 100.0
    status = ScrapeStatus.COMPLETED if job.ads_count else ScrapeStatus.EMPTY
    job.end(status, _shortfall(job))


def _shortfall(job: Job) -> Problem | None:
    limit = job.request.options.max_ads
    found, expected = job.ads_count or 0, job.expected_count
    if expected is None or found == (expected if limit == "all" else min(expected, limit)):
        return None
    return Problem(
        cause=Cause.TARGET, message=f"the target declares {expected} ads, its pages had {found}"
    )


def _digest(request: ScrapeRequest) -> bytes:
    return hashlib.sha256(
        msgspec.json.encode(request.model_dump(mode="json"), order="sorted")
    ).digest()


def _read_all(folder: Path) -> Iterator[Job]:
    for path in sorted(folder.glob("scrape_*.json")):
        try:
            yield Job.model_validate_json(path.read_bytes())
        except ValidationError:
            logger.error("%s is not a job file of this worker: ignored", path.name)
