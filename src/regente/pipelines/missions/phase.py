"""What the two phases of a mission share: its row, and what a failure costs (7.2): a retry, a wait
in the queue, or the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from regente.engine.crashpoints import crash_point
from regente.engine.errors import Blocked, Fatal, Held, TaskError, Throttled, Transient
from regente.engine.task import Task
from regente.fleet.registry import Fleet
from regente.pipelines.missions.failures import (
    EXHAUSTED,
    ErrorCode,
    Phase,
    blame_proxy,
    deactivate_worker,
    judge_session,
)
from regente.pipelines.missions.queries import QUERIES, brief_transaction
from regente.pipelines.missions.settings import DEFAULTS


@dataclass(frozen=True, slots=True)
class MissionRun:
    mission_id: int
    checkpoint: str | None
    worker_id: str | None
    session_id: int | None
    proxy_used: str | None
    proxy_id: str | None
    scrape_no: int
    scrape_sent: bool
    worker_job_id: str | None
    worker_data_url: str | None
    ads_count: int | None
    writer_id: str | None
    writer_no: int
    writer_sent: bool
    writer_job_id: str | None
    retry_count: int
    returns: int
    success_count: int | None
    failed_count: int | None
    scrape_seconds: float
    writer_seconds: float
    total_duration_ms: int
    has_worker: bool
    session_completed: int | None

    @classmethod
    async def of(cls, fleet: Fleet, task: Task[Any]) -> Self:
        rows = await QUERIES.fetch_all(fleet.database, "mission", mission_id=task.id)
        if not rows:
            raise Fatal("this task is no mission: it was not made as one", code=ErrorCode.INTERNAL)
        return cls(**rows[0])

    @property
    def worker(self) -> str:
        assert self.worker_id is not None, "the row names the worker that holds the mission"
        return self.worker_id


@dataclass(frozen=True, slots=True)
class MissionFailure:
    """A failure of the scrape or the session: its code, the worker's next status, whether the
    proxy is to blame, and whether it may be: then its other sessions decide."""

    code: ErrorCode
    message: str
    event: str = "scrape_failed"
    worker_status: str = "error"
    blames_proxy: bool = False
    may_be_the_proxys: bool = False


class MissionPhase:
    """Base of `ScrapePhase` and `StoragePhase`.

    `scrape_failed`, `storage_failed` and `sent_back` write the consequence and return the error
    that ends the attempt: the caller raises it.
    """

    def __init__(self, fleet: Fleet, task: Task[Any], run: MissionRun) -> None:
        self.fleet = fleet
        self.task = task
        self.run = run

    async def scrape_failed(self, failure: MissionFailure) -> Held | Fatal:
        """Release the worker. The mission waits for another one, or fails when its retries are used
        up."""
        code, phase = failure.code, failure.code.phase or Phase.SCRAPE
        async with brief_transaction(self.task) as connection:
            await self._log_failure(connection, failure)
            await self.leave_worker(connection, failure.worker_status, failure)
            await self._judge(connection, failure)
            attempt = await self._charge(connection, code, phase)
            if attempt is not None:
                await QUERIES.execute(
                    connection,
                    "scrape_again",
                    mission_id=self.task.id,
                    avoid_proxy_id=self.run.proxy_id,
                )
        crash_point("mission.scrape_failed")
        if attempt is None:
            return self._final(code, phase, failure.message)
        error = (
            Blocked(failure.message, code=code.value)
            if phase is Phase.SESSION
            else Transient(failure.message, code=code.value)
        )
        return Held("it waits for a worker, to be tried again", error)

    async def _judge(self, connection: Any, failure: MissionFailure) -> None:
        proxy_id, config = self.run.proxy_id, self.fleet.config
        if proxy_id is None or self.run.session_id is None:
            return
        if failure.may_be_the_proxys and not self.run.session_completed:
            await judge_session(
                self.task,
                connection,
                config,
                self.run.session_id,
                proxy_id,
                failure.code.value,
                own_fault=failure.blames_proxy,
            )
        elif failure.blames_proxy:
            await blame_proxy(self.task, connection, config, proxy_id, failure.code.value)

    async def recorded_failure(self) -> Fatal:
        """The error of a mission that failed for good, when its runner died after it had written
        the failure and before the engine recorded it."""
        rows = await QUERIES.fetch_all(self.fleet.database, "last_failure", mission_id=self.task.id)
        code = ErrorCode(rows[0]["code"]) if rows else ErrorCode.INTERNAL
        return self._final(
            code,
            code.phase or Phase.SCRAPE,
            rows[0]["message"] if rows else "its last attempt failed",
        )

    async def storage_failed(
        self, code: ErrorCode, message: str, *, job_failed: bool = False
    ) -> Transient | Fatal:
        """Send the same rows to the writer again, or fail. A job that the writer itself reports as
        failed is tried again once."""
        async with brief_transaction(self.task) as connection:
            job = self.run.writer_job_id
            await self.task.event(
                "writer_failed",
                connection=connection,
                writer_job_id=job,
                error=message,
                error_code=code.value,
            )
            attempt = await self._charge(
                connection, code, Phase.WRITER, writer_failed=int(job_failed)
            )
            if attempt is not None:
                await QUERIES.execute(connection, "store_again", mission_id=self.task.id)
        crash_point("mission.storage_failed")
        if attempt is None:
            return self._final(code, Phase.WRITER, message)
        return Transient(message, code=code.value)

    async def internal_error(self, error: Exception) -> Transient | Fatal:
        """An error of Regente itself: tried again as often as any other failure."""
        message = f"{type(error).__name__}: {error}"
        phase = Phase.WRITER if self.run.checkpoint == "armazenamento" else Phase.SCRAPE
        async with brief_transaction(self.task) as connection:
            attempt = await self._use_retry(connection, ErrorCode.INTERNAL, phase)
        if attempt is None:
            return self._final(ErrorCode.INTERNAL, phase, message)
        return Transient(message, code=ErrorCode.INTERNAL.value)

    async def sent_back(
        self,
        reason: str,
        *,
        wait_seconds: float = 0.0,
        worker_status: str = "error",
        code: ErrorCode | None = None,
        refused: bool = False,
    ) -> Held | Fatal:
        """Put the mission back into the queue through no fault of its own: no retry is charged.
        `refused`: the worker does not accept our API key."""
        failure = MissionFailure(
            code or ErrorCode.WORKER_UNAVAILABLE, reason, "mission_returned", worker_status
        )
        async with brief_transaction(self.task) as connection:
            await self.task.event(
                "mission_returned",
                connection=connection,
                reason=reason,
                worker_id=self.run.worker_id,
                error_code=failure.code.value,
                wait_seconds=wait_seconds,
            )
            rest = wait_seconds if worker_status == "ready" else 0.0
            await self.leave_worker(connection, worker_status, failure, rest_seconds=rest)
            avoid = self.run.proxy_id if worker_status == "error" else None
            row = await QUERIES.fetch_one(
                connection,
                "back_to_queue",
                mission_id=self.task.id,
                wait_seconds=wait_seconds,
                avoid_proxy_id=avoid,
                counted=int(worker_status == "error"),
            )
            if refused:
                await deactivate_worker(
                    self.task, connection, self.run.worker, failure.code.value, reason
                )
        crash_point("mission.returned")
        if row is not None and row["returns"] > self.fleet.config.max_returns:
            return Fatal(
                f"it was sent back {row['returns']} times, last because: {reason}",
                code=failure.code.value,
            )
        error: TaskError = (
            Throttled(reason, retry_after=wait_seconds)
            if wait_seconds
            else Transient(reason, code=failure.code.value)
        )
        return Held("it waits for a worker", error)

    async def leave_worker(
        self,
        connection: Any,
        status: str,
        failure: MissionFailure | None = None,
        *,
        counted: int = 0,
        rest_seconds: float = 0.0,
    ) -> None:
        failed = failure is not None and status == "error"
        await QUERIES.execute(
            connection,
            "leave_worker",
            mission_id=self.task.id,
            status=status,
            counted=counted,
            rest_seconds=rest_seconds,
            code=failure.code.value if failed and failure else None,
            message=failure.message if failed and failure else None,
        )

    async def _log_failure(self, connection: Any, failure: MissionFailure) -> None:
        details: dict[str, Any] = {
            "error_code": failure.code.value,
            "error_message": failure.message,
        }
        if failure.event == "session_failed":
            details |= {
                "worker_id": self.run.worker_id,
                "proxy_name": self.run.proxy_used,
                "session_id": self.run.session_id,
            }
        else:
            details |= {"worker_job_id": self.run.worker_job_id}
        await self.task.event(failure.event, connection=connection, **details)

    async def _charge(
        self, connection: Any, code: ErrorCode, phase: Phase, *, writer_failed: int = 0
    ) -> int | None:
        """Use up one retry and return its number; None when the code may not be retried, or no
        retry is left."""
        if not code.may_retry:
            return None
        return await self._use_retry(connection, code, phase, writer_failed=writer_failed)

    async def _use_retry(
        self, connection: Any, code: ErrorCode, phase: Phase, *, writer_failed: int = 0
    ) -> int | None:
        row = await QUERIES.fetch_one(
            connection,
            "charge_mission",
            mission_id=self.task.id,
            writer_failed=writer_failed,
            max_retries=DEFAULTS.max_retries,
        )
        if row is None:
            return None
        attempt = int(row["retry_count"])
        await self.task.event(
            "retry_triggered",
            connection=connection,
            attempt=attempt,
            error_code=code.value,
            phase=phase.value,
        )
        return attempt

    def _final(self, code: ErrorCode, phase: Phase, message: str) -> Fatal:
        final = EXHAUSTED[phase] if code.may_retry else code
        cause = f"{code.value}: {message}" if final is not code else message
        return Fatal(
            cause, code=final.value, details={"last_code": code.value, "phase": phase.value}
        )
