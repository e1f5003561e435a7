"""The worker: one session, one job at a time, with their transitions serialized by a lock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from regente.contracts.worker import (
    Cause,
    Problem,
    ScrapeRequest,
    ScrapeStatus,
    Session,
    SessionRequest,
    SessionStatus,
)
from regente.services.worker.errors import Refused, logger
from regente.services.worker.jobs import Job, JobStore
from regente.services.worker.scraping import SessionStuck, publish, scrape
from regente.services.worker.session import WorkerSession
from regente.services.worker.settings import WorkerSettings
from regente.services.worker.source import Source, SourceFailed
from regente.services.worker.storage import Storage

_SESSION_BREAKING_CAUSES = frozenset({Cause.PROXY, Cause.BLOCKED})


@dataclass(slots=True)
class _Running:
    job: Job
    task: asyncio.Task[None]
    publishing: bool = False
    ends_as: ScrapeStatus = ScrapeStatus.CANCELLED
    reason: Problem | None = None


class Worker:
    def __init__(
        self, settings: WorkerSettings, source: Source, storage: Storage, jobs: JobStore
    ) -> None:
        self._settings = settings
        self._source = source
        self._storage = storage
        self.jobs = jobs
        self._session: WorkerSession | None = None
        self._running: _Running | None = None
        self._lock = asyncio.Lock()

    def session(self) -> Session:
        if self._session is None:
            return Session(status=SessionStatus.TERMINATED)
        job = self._running.job if self._running else None
        return Session(
            status=self._session.status,
            problem=self._session.problem,
            job_id=job.job_id if job else None,
            job_key=job.key if job else None,
        )

    async def open_session(self, request: SessionRequest) -> Session:
        async with self._lock:
            if self._session is not None and self._session.usable and not request.force_refresh:
                return self.session()
            await self._end_session(ScrapeStatus.CANCELLED, "its session was replaced")
            self._session = WorkerSession(self._source, request.proxy, self._settings)
            return self.session()

    async def end_session(self) -> Session:
        async with self._lock:
            await self._end_session(ScrapeStatus.CANCELLED, "its session was ended")
            return self.session()

    async def close(self) -> None:
        """End the session; a running job ends as failed."""
        async with self._lock:
            await self._end_session(
                ScrapeStatus.FAILED, "the worker was stopped while this job was running"
            )

    async def start_scrape(self, request: ScrapeRequest, key: str | None) -> Job:
        async with self._lock:
            known = self.jobs.find_by_key(key, request) if key else None
            if known is not None:
                return known
            session = self._ready_session()
            self.jobs.forget_older_than(self._settings.keep_days)
            job = self._accept(request, key)
            session.status = SessionStatus.SCRAPING
            self._running = _Running(
                job, asyncio.create_task(self._run(job, session), name=job.job_id)
            )
            return job

    async def cancel(self, job_id: str) -> Job:
        async with self._lock:
            job = self.jobs.get(job_id)
            if self._running is not None and self._running.job is job:
                await self._stop_job(ScrapeStatus.CANCELLED, None)
            return job

    def _ready_session(self) -> WorkerSession:
        session = self._session
        if self._running is not None:
            wait = self._settings.busy_retry_after_seconds
            raise Refused(
                429, "busy", f"job {self._running.job.job_id} is running; one job at a time", wait
            )
        if session is None or session.status is not SessionStatus.READY:
            status = SessionStatus.TERMINATED if session is None else session.status
            raise Refused(
                400,
                "session_not_ready",
                f"the session is {status}; a scrape needs a ready one",
            )
        return session

    def _accept(self, request: ScrapeRequest, key: str | None) -> Job:
        try:
            return self.jobs.create(request, key)
        except OSError as error:
            logger.error("a job could not be stored: %s", error.strerror)
            raise Refused(500, "storage_failed", "the job could not be stored") from None

    async def _end_session(self, jobs_end: ScrapeStatus, why: str) -> None:
        await self._stop_job(jobs_end, Problem(cause=Cause.WORKER, message=why))
        if self._session is not None:
            await self._session.end()
            self._session = None

    async def _stop_job(self, status: ScrapeStatus, reason: Problem | None) -> None:
        running = self._running
        if running is None:
            return
        running.ends_as, running.reason = status, reason
        if not running.publishing:  # once publishing has begun the job completes
            running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)
        if (
            self._running is running and self._session is not None
        ):  # the task was cancelled before its first step
            running.job.end(status, reason)
            self._finish(running.job, self._session)

    async def _run(self, job: Job, session: WorkerSession) -> None:
        try:
            await self._scrape(job, session)
        except asyncio.CancelledError:
            running = self._running
            assert running is not None
            job.end(running.ends_as, running.reason)
        except SourceFailed as failed:
            job.end(ScrapeStatus.FAILED, failed.problem)
            if failed.problem.cause in _SESSION_BREAKING_CAUSES:
                session.mark_disconnected(failed.problem)
        except SessionStuck as stuck:
            job.end(ScrapeStatus.FAILED, Problem(cause=Cause.TARGET, message=str(stuck)))
            session.mark_stuck(str(stuck))
        except OSError as error:
            job.end(
                ScrapeStatus.FAILED,
                Problem(
                    cause=Cause.STORAGE, message=f"results not stored: {error.strerror or error}"
                ),
            )
        except Exception as error:
            logger.exception("job %s failed", job.job_id)
            job.end(
                ScrapeStatus.FAILED,
                Problem(cause=Cause.WORKER, message=f"the worker failed: {type(error).__name__}"),
            )
        finally:
            self._finish(job, session)

    async def _scrape(self, job: Job, session: WorkerSession) -> None:
        draft = self._storage.draft(job.job_id)
        try:
            job.status = ScrapeStatus.RUNNING
            self.jobs.save(job)
            await scrape(job, session.visit, draft, self._settings)
            assert self._running is not None
            self._running.publishing = True
            await publish(job, draft)
        except BaseException:
            draft.discard()
            raise

    def _finish(self, job: Job, session: WorkerSession) -> None:
        if session.status is SessionStatus.SCRAPING:
            session.status = SessionStatus.READY
        self._running = None
        logger.info("job %s is %s: %s ads", job.job_id, job.status, job.ads_count)
        try:
            self.jobs.save(job)
        except OSError as error:
            logger.error("the end of job %s could not be stored: %s", job.job_id, error.strerror)
