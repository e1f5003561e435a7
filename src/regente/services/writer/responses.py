"""Responses: a job in the contract's form, and errors with the codes of 9.3."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from psycopg.rows import DictRow
from starlette.responses import JSONResponse

from regente.contracts.writer import FailedItem, Progress, WriterJob, WriterStatus

logger = logging.getLogger("regente.writer")

_WHOLE_CHARACTERS = 2_000
_VALUE_CHARACTERS = 200
_SHOWN_FIELDS = 50


def job_response(job: DictRow, failed: list[DictRow]) -> WriterJob:
    return WriterJob(
        job_id=job["job_id"],
        status=WriterStatus(job["status"]),
        progress=Progress(
            total=job["total"],
            processed=job["processed"],
            success_count=job["success_count"],
            failed_count=job["failed_count"],
        ),
        failed_items=[
            FailedItem(index=one["index"], data=shortened(one["data"]), error=one["error"])
            for one in failed
        ],
        error=job["error"],
        error_code=job["error_code"],
        started_at=job["started_at"],
        completed_at=job["completed_at"],
    )


def shortened(data: str) -> Any:
    """Return a small row unchanged; otherwise its fields, each cut to a bounded length."""
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError:  # too long to be kept whole
        return _cut(data)
    if len(data) <= _WHOLE_CHARACTERS:
        return value
    if not isinstance(value, dict):
        return _cut(data)
    return {
        name[:_VALUE_CHARACTERS]: _short_value(one)
        for name, one in list(value.items())[:_SHOWN_FIELDS]
    }


def _short_value(value: Any) -> Any:
    if isinstance(value, dict | list):
        value = msgspec.json.encode(value).decode()
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    return (
        text
        if len(text) <= _VALUE_CHARACTERS
        else f"{text[:_VALUE_CHARACTERS]}… ({len(text):,} characters)"
    )


def invalid_field(place: tuple[str, ...], message: str) -> RequestValidationError:
    return RequestValidationError([{"type": "value_error", "loc": place, "msg": message}])


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _internal)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Respond 400 without JSON, 422 with the places of wrong fields; their values may be secret."""
    assert isinstance(error, RequestValidationError)
    found = [{"type": one["type"], "loc": one["loc"], "msg": one["msg"]} for one in error.errors()]
    malformed = any(one["type"] == "json_invalid" for one in found)
    return JSONResponse({"detail": jsonable_encoder(found)}, 400 if malformed else 422)


async def _internal(_: Request, error: Exception) -> JSONResponse:
    logger.error("unexpected error: %s", type(error).__name__)
    return JSONResponse({"detail": "internal error"}, 500)
