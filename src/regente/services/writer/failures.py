"""Why a job cannot continue; each failure carries the code that a client of the writer reads.

JobFailure        the job ends as `failed`
└── SourceError   transient: read again, and fail when the tries are used up
LeaseLost         another process has claimed the job: stop working on it
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
    """A transient error: a reset, a 5xx, a timeout."""


class LeaseLost(Exception):
    """Another process has claimed the job, or its progress has moved."""


# SQLSTATE classes that a row's own values can cause: cardinality, data, integrity, check option, a
# trigger's RAISE, too large.
_ROW_CLASSES = ("21", "22", "23", "44", "P0", "54")
_SCHEMA_CLASSES = ("42", "3F", "0A")
_TRANSIENT_CLASSES = ("08", "25", "40", "53", "55", "57", "58")


def is_row_fault(error: psycopg.Error) -> bool:
    return (error.sqlstate or "").startswith(_ROW_CLASSES)


def is_transient(error: psycopg.Error) -> bool:
    """True for an error that a retry may fix; a broken connection has no SQLSTATE."""
    return error.sqlstate is None or error.sqlstate.startswith(_TRANSIENT_CLASSES)


def database_failure(error: psycopg.Error) -> JobFailure:
    schema = (error.sqlstate or "").startswith(_SCHEMA_CLASSES)
    code = WriterCode.SCHEMA if schema else WriterCode.GENERIC
    return JobFailure(code, f"PostgreSQL refused: {first_line(error)}")


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:500]
