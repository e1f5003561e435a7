"""The error codes of the original specification (7.1): which may be tried again, and what their
exhaustion is called."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from regente.contracts.worker import Cause, Problem, SessionStatus
from regente.contracts.writer import WriterJob
from regente.outgoing.http import CallFailed, Trouble


class Phase(StrEnum):
    SESSION = "session"
    SCRAPE = "scrape"
    WRITER = "writer"


class Code(StrEnum):
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
    Phase.SESSION: Code.SESSION_EXHAUSTED,
    Phase.SCRAPE: Code.SCRAPE_EXHAUSTED,
    Phase.WRITER: Code.WRITER_EXHAUSTED,
}

BROKEN_SESSION = {
    SessionStatus.STUCK: Code.SESSION_STUCK,
    SessionStatus.DISCONNECTED: Code.SESSION_DISCONNECTED,
    SessionStatus.TERMINATED: Code.SESSION,
}


def of_problem(problem: Problem | None) -> Code:
    """The code of a scrape that failed."""
    return (
        Code.STORAGE
        if problem is not None and problem.cause is Cause.STORAGE
        else Code.SCRAPE_FAILED
    )


def of_writer_job(job: WriterJob) -> Code:
    return Code(job.error_code) if job.error_code is not None else Code.WRITER


def of_writer_call(error: CallFailed) -> Code:
    match error.trouble:
        case Trouble.REFUSED | Trouble.UNAUTHORIZED:
            return Code.WRITER_REFUSED
        case Trouble.TIMEOUT:
            return Code.WRITER_TIMEOUT
        case Trouble.INVALID:
            return Code.WRITER if error.status == 413 else Code.WRITER_SCHEMA
        case (
            Trouble.BROKEN | Trouble.MISSING | Trouble.SERVER | Trouble.PROTOCOL | Trouble.THROTTLED
        ):
            return Code.WRITER
        case _:
            assert_never(error.trouble)


def blames_proxy(code: Code, problem: Problem | None, *, starting: bool) -> bool:
    """Only a proxy's own fault raises its count. A session that does not start is its fault unless
    the evidence differs."""
    if problem is not None:
        return problem.cause is Cause.PROXY
    if code is Code.SESSION_TIMEOUT:
        return True
    return starting and code in (Code.SESSION_STUCK, Code.SESSION_DISCONNECTED)
