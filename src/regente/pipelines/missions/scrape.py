"""The scrape phase: one job on one worker, sent once and polled to its end (5.2, 2.4 to 2.6)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import Any

from regente.contracts.worker import Cause, ScrapeJob, ScrapeStatus, Session, SessionStatus
from regente.engine.crashpoints import crash_point
from regente.engine.errors import Fatal, Held
from regente.engine.task import Task
from regente.fleet.clients import end_session_best_effort, throttle_delay, with_retries
from regente.fleet.models import Worker
from regente.fleet.registry import Fleet
from regente.http_client.client import CallFailed, CallFailure
from regente.pipelines.missions.args import MissionArgs
from regente.pipelines.missions.failures import (
    BROKEN_SESSION,
    ErrorCode,
    blames_proxy,
    code_of_problem,
)
from regente.pipelines.missions.phase import MissionFailure, MissionPhase, MissionRun
from regente.pipelines.missions.queries import QUERIES, brief_transaction

UNDER_WAY = (ScrapeStatus.PENDING, ScrapeStatus.QUEUED, ScrapeStatus.RUNNING)


class ScrapePhase(MissionPhase):
    def __init__(
        self, fleet: Fleet, task: Task[MissionArgs], run: MissionRun, worker: Worker
    ) -> None:
        super().__init__(fleet, task, run)
        self._worker = worker
        self._client = fleet.worker_client(worker)
        self._job_id = run.worker_job_id
        self._reported: int | None = None
        self._started_at = time.monotonic() - run.scrape_seconds

    async def extract(self) -> MissionRun:
        """Run the job until the worker has stored the ads and is free; the changed row."""
        if self._job_id is None:
            self._job_id = await self._begin()
        job = await self._watch(self._job_id)
        return await self._ended(self._job_id, job)

    # Send the job: record the intent before, and the job's id right after.

    async def _begin(self) -> str:
        resent = self.run.scrape_sent
        if not resent:
            async with brief_transaction(self.task) as connection:
                await QUERIES.execute(connection, "about_to_scrape", mission_id=self.task.id)
            crash_point("scrape.intended")
        job_id = await self._send(resent)
        crash_point("scrape.accepted")
        request = self.task.args.request.model_dump(mode="json")
        async with brief_transaction(self.task) as connection:
            await QUERIES.execute(
                connection, "scrape_started", mission_id=self.task.id, job_id=job_id
            )
            await self.task.event(
                "scrape_started",
                connection=connection,
                worker_job_id=job_id,
                mission_id=self.task.id,
                mission_config=request,
            )
        crash_point("scrape.recorded")
        self.run = replace(self.run, worker_job_id=job_id)
        self._started_at = time.monotonic()
        return job_id

    async def _send(self, resent: bool) -> str:
        """`POST /scrape`. When the answer got lost, ask the worker for its job before the next
        try."""
        key = self.task.idempotency_key(f"scrape-{self.run.scrape_no}")

        async def attempt() -> str:
            nonlocal resent
            if resent and (known := await self._known_job(key)) is not None:
                return known
            self.task.check_lease()
            try:
                return await self._client.scrape(self.task.args.request, key)
            except CallFailed as error:
                resent = resent or error.may_have_acted
                raise

        seconds = self.fleet.config.outage_seconds
        try:
            return await with_retries(self.task, attempt, seconds, rests=False)
        except CallFailed as error:
            raise await self._not_accepted(error) from error

    async def _known_job(self, key: str) -> str | None:
        """The job that an earlier `POST /scrape` may have begun. None when it is safe to send it
        (again): the same key is the same job for a worker that shows the key of its job."""
        try:
            session = await with_retries(
                self.task, self._client.session, self.fleet.config.outage_seconds
            )
        except CallFailed as error:
            await self._end_session()  # it may scrape without an answer to say so
            raise await self._not_accepted(error) from error
        if session.status is SessionStatus.SCRAPING:
            if session.job_key == key and session.job_id:
                return session.job_id
            # A job without a known name may be ours. It ends with its session, before another
            # begins.
            await self._end_session()
            raise await self.sent_back("the worker scrapes an unknown job: its session is ended")
        if (code := BROKEN_SESSION.get(session.status)) is not None:
            raise await self._session_broken(code, session)
        if "job_key" not in session.model_fields_set:
            # The session says nothing of a job that has been accepted and has not begun.
            await self._end_session()
            raise await self.sent_back(
                f"the worker may have a job that it does not name (its session is "
                f"{session.status}): the session is ended"
            )
        return None

    async def _not_accepted(self, error: CallFailed) -> Held | Fatal:
        if error.failure is CallFailure.THROTTLED:
            return await self._throttled(error.message, error.retry_after)
        return await self._call_failed(error)

    async def _call_failed(self, error: CallFailed) -> Held | Fatal:
        match error.failure:
            case CallFailure.UNAUTHORIZED:
                return await self.sent_back(error.message, refused=True)
            case CallFailure.INVALID | CallFailure.PROTOCOL:
                await self._end_session()
                return await self.scrape_failed(
                    MissionFailure(ErrorCode.SCRAPE_FAILED, error.message)
                )
            case _:
                await self._end_session()  # its job may go on
                return await self.sent_back(error.message)

    async def _throttled(self, reason: str, retry_after: float | None) -> Held | Fatal:
        """The mission waits as long as the target asked; the worker is ready for another one."""
        return await self.sent_back(
            reason, wait_seconds=throttle_delay(retry_after), worker_status="ready"
        )

    # Poll the job.

    async def _watch(self, job_id: str) -> ScrapeJob:
        while True:
            job = await self._ask(job_id)
            if job.status not in UNDER_WAY:
                return job
            await self._report(job_id, job)
            await self._check_session()
            await self._check_halt(job_id)
            left_seconds = self.fleet.config.timeout_job_seconds - (
                time.monotonic() - self._started_at
            )
            if left_seconds <= 0:
                await self._end_job(job_id)
                await self._end_session()
                limit = self.fleet.config.timeout_job_seconds
                raise await self.scrape_failed(
                    MissionFailure(
                        ErrorCode.SCRAPE_TIMEOUT,
                        f"the job was still {job.status} after {limit:g} s",
                    )
                )
            await asyncio.sleep(min(self.fleet.config.polling_job_seconds, left_seconds))

    async def _ask(self, job_id: str) -> ScrapeJob:
        try:
            return await with_retries(
                self.task, lambda: self._client.job(job_id), self.fleet.config.outage_seconds
            )
        except CallFailed as error:
            if error.failure is CallFailure.MISSING:
                lost = f"the worker does not know the job {job_id} any more"
                raise await self.sent_back(lost) from error
            raise await self._call_failed(error) from error

    async def _report(self, job_id: str, job: ScrapeJob) -> None:
        """Record progress when the count of ads has changed."""
        if job.ads_count is None or job.ads_count == self._reported:
            await self.task.heartbeat()
            return
        self._reported = job.ads_count
        share = None if job.progress_pct is None else job.progress_pct / 100
        await self.task.progress(share, "extracao")
        async with brief_transaction(self.task) as connection:
            await self.task.event(
                "scrape_progress",
                connection=connection,
                worker_job_id=job_id,
                ads_count=job.ads_count,
                progress_pct=job.progress_pct,
            )

    async def _check_session(self) -> None:
        """Fail when the session is broken, even if the job does not report it yet."""
        with contextlib.suppress(CallFailed):  # if it lasts, the next poll of the job fails
            session = await self._client.session()
            if (code := BROKEN_SESSION.get(session.status)) is not None:
                raise await self._session_broken(code, session)

    async def _session_broken(self, code: ErrorCode, session: Session) -> Held | Fatal:
        reason = f": {session.problem.message}" if session.problem else ""
        await self._end_session()  # its job must stop before another worker begins the mission
        return await self.scrape_failed(
            MissionFailure(
                code,
                f"the session is {session.status}{reason}",
                "session_failed",
                blames_proxy=blames_proxy(code, session.problem, starting=False),
                may_be_the_proxys=not _is_throttled(session),
            )
        )

    async def _end_session(self) -> None:
        """End the session and the job in it, and wait until the worker does not scrape any more, if
        it answers."""
        deadline = time.monotonic() + self.fleet.config.cancel_seconds
        while True:
            await end_session_best_effort(self.task, self._client, self.fleet.config.outage_seconds)
            if not await self._scrapes() or time.monotonic() > deadline:
                return
            await self.task.heartbeat()
            await asyncio.sleep(self._confirm_seconds)

    async def _scrapes(self) -> bool:
        try:
            return (await self._client.session()).status is SessionStatus.SCRAPING
        except CallFailed:
            return False

    @property
    def _confirm_seconds(self) -> float:
        return min(1.0, self.fleet.config.cancel_seconds / 20)

    async def _check_halt(self, job_id: str) -> None:
        """Cancel the job when a person stopped the orchestrator with `now`."""
        if (await QUERIES.fetch_all(self.fleet.database, "orchestrator_state"))[0][
            "state"
        ] == "halting":
            ended = await self._confirmed_end(job_id)
            if not ended:
                await self._end_session()
            raise await self.sent_back(
                "the orchestrator was stopped",
                worker_status="ready" if ended else "error",
                code=ErrorCode.SCRAPE_CANCELLED,
            )

    # Record how the job ended.

    async def _ended(self, job_id: str, job: ScrapeJob) -> MissionRun:
        if job.status is ScrapeStatus.COMPLETED and job.ads_count is None:
            raise await self.scrape_failed(
                MissionFailure(
                    ErrorCode.SCRAPE_FAILED,
                    f"the job {job_id} is completed, but says nothing of its ads_count",
                )
            )
        if job.status is ScrapeStatus.COMPLETED and job.ads_count:
            return await self._extracted(
                job_id, job.ads_count, job.problem.message if job.problem else None
            )
        if job.status in (ScrapeStatus.EMPTY, ScrapeStatus.COMPLETED):
            return await self._nothing_found(job_id)
        if job.status is ScrapeStatus.CANCELLED:
            raise await self.scrape_failed(
                MissionFailure(
                    ErrorCode.SCRAPE_CANCELLED, f"the job {job_id} was cancelled, and not by us"
                )
            )
        problem = job.problem
        if problem is not None and problem.cause is Cause.THROTTLED:
            raise await self._throttled(problem.message, problem.retry_after)
        if job.status is ScrapeStatus.PAUSED:
            await self._end_job(job_id)  # it could be resumed
        # A job that failed because its session broke is the session's failure.
        await self._check_session()
        message = problem.message if problem is not None else f"the job {job_id} is {job.status}"
        blamed = problem is not None and problem.cause is Cause.PROXY
        raise await self.scrape_failed(
            MissionFailure(code_of_problem(problem), message, blames_proxy=blamed)
        )

    async def _extracted(self, job_id: str, ads_count: int, shortfall: str | None) -> MissionRun:
        url = self._worker.data_url(job_id)
        async with brief_transaction(self.task) as connection:
            await QUERIES.execute(
                connection,
                "scrape_ended",
                mission_id=self.task.id,
                checkpoint="armazenamento",
                url=url,
                ads_count=ads_count,
            )
            details = {"problem": shortfall} if shortfall else {}
            await self._completed(
                connection, "scrape_completed", job_id, ads_count=ads_count, **details
            )
        crash_point("scrape.stored")
        return replace(
            self.run,
            checkpoint="armazenamento",
            worker_data_url=url,
            ads_count=ads_count,
            writer_id=None,
            writer_sent=False,
            writer_job_id=None,
            writer_seconds=0.0,
        )

    async def _nothing_found(self, job_id: str) -> MissionRun:
        async with brief_transaction(self.task) as connection:
            await QUERIES.execute(
                connection,
                "scrape_ended",
                mission_id=self.task.id,
                checkpoint="finalizado",
                url=None,
                ads_count=0,
            )
            await self._completed(connection, "scrape_empty", job_id)
        crash_point("scrape.stored")
        return await MissionRun.of(self.fleet, self.task)

    async def _completed(self, connection: Any, event: str, job_id: str, **details: Any) -> None:
        duration_ms = round((time.monotonic() - self._started_at) * 1000)
        await self.task.event(
            event, connection=connection, worker_job_id=job_id, duration_ms=duration_ms, **details
        )
        await self.leave_worker(connection, "ready", counted=1)

    # Cancel.

    async def cancel(self) -> None:
        """Cancel the job and release the worker. A worker that does not confirm in time has its
        session ended."""
        run = await MissionRun.of(self.fleet, self.task)
        job_id = run.worker_job_id
        clean = job_id is not None and await self._confirmed_end(job_id)
        if not clean and not (job_id is None and not run.scrape_sent):
            self.task.check_lease()
            with contextlib.suppress(CallFailed):
                await self._client.end_session()
        status = "ready" if clean or not run.scrape_sent else "error"
        async with brief_transaction(self.task) as connection:
            await self.leave_worker(
                connection,
                status,
                MissionFailure(ErrorCode.SCRAPE_CANCELLED, "its mission was canceled"),
            )
        crash_point("mission.called_off")

    async def _end_job(self, job_id: str) -> None:
        self.task.check_lease()
        with contextlib.suppress(CallFailed):
            await self._client.cancel(job_id)

    async def _confirmed_end(self, job_id: str) -> bool:
        deadline = time.monotonic() + self.fleet.config.cancel_seconds
        while time.monotonic() < deadline:
            self.task.check_lease()
            try:
                await self._client.cancel(job_id)
                if (await self._client.job(job_id)).status not in UNDER_WAY:
                    return (await self._client.session()).status is SessionStatus.READY
            except CallFailed as error:
                if error.failure is CallFailure.MISSING:
                    return False
            await asyncio.sleep(self._confirm_seconds)
        return False


def _is_throttled(session: Session) -> bool:
    return session.problem is not None and session.problem.cause is Cause.THROTTLED
