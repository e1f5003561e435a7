"""The error codes of the original specification (7.1): which may be tried again, and what their
exhaustion is called."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from regente.contracts.worker import Cause, Problem, SessionStatus
from regente.contracts.writer import WriterJob
from regente.http_client.client import CallFailed, CallFailure


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
        """1xx but 104, 2xx but 203, 300 to 303 (7.2)."""
        return self.value[5] in "123" and self not in EXHAUSTED.values()

    @property
    def phase(self) -> Phase | None:
        return {"1": Phase.SESSION, "2": Phase.SCRAPE, "3": Phase.WRITER}.get(self.value[5])


EXHAUSTED = {
    Phase.SESSION: ErrorCode.SESSION_EXHAUSTED,
    Phase.SCRAPE: ErrorCode.SCRAPE_EXHAUSTED,
    Phase.WRITER: ErrorCode.WRITER_EXHAUSTED,
}

BROKEN_SESSION = {
    SessionStatus.STUCK: ErrorCode.SESSION_STUCK,
    SessionStatus.DISCONNECTED: ErrorCode.SESSION_DISCONNECTED,
    SessionStatus.TERMINATED: ErrorCode.SESSION,
}


def of_problem(problem: Problem | None) -> ErrorCode:
    """The code of a scrape that failed."""
    return (
        ErrorCode.STORAGE
        if problem is not None and problem.cause is Cause.STORAGE
        else ErrorCode.SCRAPE_FAILED
    )


def of_writer_job(job: WriterJob) -> ErrorCode:
    return ErrorCode(job.error_code) if job.error_code is not None else ErrorCode.WRITER


def of_writer_call(error: CallFailed) -> ErrorCode:
    match error.failure:
        case CallFailure.REFUSED | CallFailure.UNAUTHORIZED:
            return ErrorCode.WRITER_REFUSED
        case CallFailure.TIMEOUT:
            return ErrorCode.WRITER_TIMEOUT
        case CallFailure.INVALID:
            return ErrorCode.WRITER if error.status == 413 else ErrorCode.WRITER_SCHEMA
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
    """Only a proxy's own fault raises its count. A session that does not start is its fault unless
    the evidence differs."""
    if problem is not None:
        return problem.cause is Cause.PROXY
    if code is ErrorCode.SESSION_TIMEOUT:
        return True
    return starting and code in (ErrorCode.SESSION_STUCK, ErrorCode.SESSION_DISCONNECTED)
