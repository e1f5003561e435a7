"""Why a job cannot go on. Each carries the code that the orchestrator reads.

JobFailure            the job ends as `failed`
└── SourceTrouble     it may be better in a moment: read again, and only then give up
LeaseLost             another process has the job now: leave it alone
"""

from __future__ import annotations

from enum import StrEnum

import psycopg


class WriterCode(StrEnum):
    GENERIC = "ERROR300"
    REFUSED = "ERROR301"
    TIMEOUT = "ERROR302"
    SCHEMA = "ERROR303"
    STORAGE = "ERROR400"
    CREDENTIALS = "ERROR401"


class JobFailure(Exception):
    def __init__(self, code: WriterCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SourceError(JobFailure):
    """A reset, a 5xx, a timeout."""


class LeaseLost(Exception):
    """The job is not ours any more, or has moved on without us."""


# SQLSTATE classes of what a row's own values can do: cardinality, data, integrity, check option, a
# trigger's RAISE, too large.
_ROW_CLASSES = ("21", "22", "23", "44", "P0", "54")
_SCHEMA_CLASSES = ("42", "3F", "0A")
_TRANSIENT_CLASSES = ("08", "25", "40", "53", "55", "57", "58")


def is_row_fault(error: psycopg.Error) -> bool:
    return (error.sqlstate or "").startswith(_ROW_CLASSES)


def is_transient(error: psycopg.Error) -> bool:
    """A connection that broke has no SQLSTATE at all."""
    return error.sqlstate is None or error.sqlstate.startswith(_TRANSIENT_CLASSES)


def database_failure(error: psycopg.Error) -> JobFailure:
    schema = (error.sqlstate or "").startswith(_SCHEMA_CLASSES)
    code = WriterCode.SCHEMA if schema else WriterCode.GENERIC
    return JobFailure(code, f"PostgreSQL refused: {first_line(error)}")


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:500]
