"""The error codes of the original specification (7.1): what each is called, which may be retried,
and whether the proxy or the worker is to blame.

A blamed proxy gets a strike; with three it is deactivated. Without evidence of its own a failure
is judged by comparison: a proxy whose sessions fail again and again, for any reason, is blamed if
the same worker's sessions through other proxies do not. When most proxies fail at once, the target
must be down: the breaker opens, and no proxy is deactivated. A worker that refuses our API key is
deactivated at once.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, assert_never

from regente.contracts.worker import Cause, Problem, SessionStatus
from regente.contracts.writer import WriterJob
from regente.engine.database import TaskConnection
from regente.engine.log import logger
from regente.engine.task import Task
from regente.fleet.config import FleetConfig
from regente.http_client.client import CallFailed, CallFailure
from regente.pipelines.missions.queries import QUERIES

MAX_READ_ITEMS = 20


class Phase(StrEnum):
    SESSION = "session"
    SCRAPE = "scrape"
    WRITER = "writer"


class ErrorCode(StrEnum):
    SESSION = "ERROR100"
    SESSION_TIMEOUT = "ERROR101"
    SESSION_STUCK = "ERROR102"
    SESSION_DISCONNECTED = "ERROR103"
    SESSION_EXHAUSTED = "ERROR104"
    SCRAPE_FAILED = "ERROR200"
    SCRAPE_CANCELLED = "ERROR201"
    SCRAPE_TIMEOUT = "ERROR202"
    SCRAPE_EXHAUSTED = "ERROR203"
    WRITER = "ERROR300"
    WRITER_REFUSED = "ERROR301"
    WRITER_TIMEOUT = "ERROR302"
    WRITER_SCHEMA = "ERROR303"
    WRITER_EXHAUSTED = "ERROR304"
    STORAGE = "ERROR400"
    STORAGE_CREDENTIALS = "ERROR401"
    INTERNAL = "ERROR500"
    NO_PROXY = "ERROR501"
    WORKER_UNAVAILABLE = "ERROR502"

    @property
    def may_retry(self) -> bool:
        """1xx except 104, 2xx except 203, 300 to 303 (7.2)."""
        return self.value[5] in "123" and self not in EXHAUSTED.values()

    @property
    def phase(self) -> Phase | None:
        return {"1": Phase.SESSION, "2": Phase.SCRAPE, "3": Phase.WRITER}.get(self.value[5])


EXHAUSTED = {
    Phase.SESSION: ErrorCode.SESSION_EXHAUSTED,
    Phase.SCRAPE: ErrorCode.SCRAPE_EXHAUSTED,
    Phase.WRITER: ErrorCode.WRITER_EXHAUSTED,
}
"""The code of a mission whose retries are used up."""

BROKEN_SESSION = {
    SessionStatus.STUCK: ErrorCode.SESSION_STUCK,
    SessionStatus.DISCONNECTED: ErrorCode.SESSION_DISCONNECTED,
    SessionStatus.TERMINATED: ErrorCode.SESSION,
}


REFUSED_BY_STORAGE = re.compile(
    r"\b(AccessDenied|AllAccessDisabled|ExpiredToken|InvalidAccessKeyId|InvalidSecurity"
    r"|InvalidToken|SignatureDoesNotMatch|TokenRefreshRequired|AuthFailure|RequestTimeTooSkewed)\b"
)
FAILED_IN_STORAGE = re.compile(
    r"\b(NoSuchBucket|NoSuchKey|NoSuchUpload|NoSuchVersion|InvalidBucketName|InvalidObjectState"
    r"|QuotaExceeded|EntityTooLarge)\b"
)
"""The error codes of S3, which services repeat in their texts."""


def code_of_storage(text: str | None) -> ErrorCode | None:
    """The code that the text of a worker or writer stands for, if it names an error of S3."""
    if text is None:
        return None
    if REFUSED_BY_STORAGE.search(text):
        return ErrorCode.STORAGE_CREDENTIALS
    return ErrorCode.STORAGE if FAILED_IN_STORAGE.search(text) else None


def code_of_storage_status(status: int | None) -> ErrorCode | None:
    """The error code for the status with which the storage answers for the results."""
    if status in (401, 403):
        return ErrorCode.STORAGE_CREDENTIALS
    gone = status in (404, 410)
    return ErrorCode.STORAGE if gone or (status is not None and status >= 500) else None


def code_of_problem(problem: Problem | None) -> ErrorCode:
    """The code of a scrape job that failed."""
    if problem is None or problem.cause is not Cause.STORAGE:
        return ErrorCode.SCRAPE_FAILED
    return code_of_storage(problem.message) or ErrorCode.STORAGE


def code_of_writer_job(job: WriterJob) -> ErrorCode | None:
    """The code of a job that failed, if it says more than that."""
    if job.error_code is not None:
        return ErrorCode(job.error_code)
    texts = [job.error, *(item.error for item in job.failed_items[:MAX_READ_ITEMS])]
    return next(filter(None, map(code_of_storage, texts)), None)


def code_of_writer_call(error: CallFailed) -> ErrorCode:
    match error.failure:
        case CallFailure.REFUSED | CallFailure.UNAUTHORIZED:
            return ErrorCode.WRITER_REFUSED
        case CallFailure.TIMEOUT:
            return ErrorCode.WRITER_TIMEOUT
        case CallFailure.INVALID:
            if error.status == 413:
                return ErrorCode.WRITER
            return code_of_storage(error.body) or ErrorCode.WRITER_SCHEMA
        case (
            CallFailure.BROKEN
            | CallFailure.MISSING
            | CallFailure.SERVER
            | CallFailure.PROTOCOL
            | CallFailure.THROTTLED
        ):
            return ErrorCode.WRITER
        case _:
            assert_never(error.failure)


def blames_proxy(code: ErrorCode, problem: Problem | None, *, starting: bool) -> bool:
    """True when the failure counts as a strike against the proxy: the worker says so, or a session
    did not start and the worker names no other cause."""
    if problem is not None:
        return problem.cause is Cause.PROXY
    if code is ErrorCode.SESSION_TIMEOUT:
        return True
    return starting and code in (ErrorCode.SESSION_STUCK, ErrorCode.SESSION_DISCONNECTED)


async def judge_session(
    task: Task[Any],
    connection: TaskConnection,
    config: FleetConfig,
    session_id: int,
    proxy_id: str,
    reason: str,
    *,
    own_fault: bool,
) -> bool:
    """Whether the failure of a session counts against its proxy: it is the proxy's own fault, or
    the proxy's sessions keep failing while the same worker's through others do not. In the
    transaction that records the failure."""
    row = await QUERIES.fetch_one(
        connection, "judge_session", session_id=session_id, own_fault=own_fault
    )
    if row is None or not row["strikes"]:
        return False
    await blame_proxy(task, connection, config, proxy_id, reason, strikes=row["strikes"])
    return True


async def blame_proxy(
    task: Task[Any],
    connection: TaskConnection,
    config: FleetConfig,
    proxy_id: str,
    reason: str,
    *,
    strikes: int = 1,
) -> None:
    """Count strikes against the proxy, in the transaction that records the failure."""
    row = await QUERIES.fetch_one(
        connection,
        "blame_proxy",
        proxy_id=proxy_id,
        reason=reason,
        strikes=strikes,
        max_failures=config.max_proxy_failures,
        window_seconds=config.breaker_window_seconds,
        share=config.breaker_share,
    )
    if row is None:
        return
    if not row["active"]:
        await task.event(
            "proxy_deactivated",
            connection=connection,
            id=proxy_id,
            proxy_name=row["name"],
            fail_count=row["fail_count"],
            reason=reason,
            by="regente",
        )
    if row["outage"] and await QUERIES.fetch_all(connection, "open_breaker"):
        logger.error(
            "most proxies fail: the target may be down; no proxy is deactivated, and one "
            "worker at a time tries again"
        )
        await task.event(
            "proxy_breaker_opened", connection=connection, proxy_name=row["name"], reason=reason
        )


async def deactivate_worker(
    task: Task[Any], connection: TaskConnection, worker_id: str, code: str, message: str
) -> None:
    """Deactivate a worker that refuses our API key, until a person activates it again."""
    row = await QUERIES.fetch_one(
        connection, "deactivate_worker", worker_id=worker_id, code=code, message=message
    )
    if row is not None:
        await task.event(
            "worker_deactivated",
            connection=connection,
            id=worker_id,
            name=row["name"],
            by="regente",
            reason=message,
        )
