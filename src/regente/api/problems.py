"""Maps errors to RFC 9457 problem details: HTTP status, stable `code`, invalid fields, request id.

No response repeats a field's value: it may be a secret.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from psycopg_pool import PoolTimeout
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from regente.api import errors as refusals
from regente.engine import errors
from regente.engine.database import TIES
from regente.fleet.secrets import SecretsUnreadable
from regente.http_client.client import CallFailed

logger = logging.getLogger("regente.api")

MEDIA_TYPE = "application/problem+json"
TYPE_START = "urn:regente:problem:"
RETRY_SECONDS = 5.0
MAX_FIELDS = 100
"""Invalid fields that one answer names."""
MAX_SHOWN_CHARACTERS = 500

# The first matching class decides.
_STATUSES: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (refusals.Unauthorized, HTTPStatus.UNAUTHORIZED),
    (refusals.Forbidden, HTTPStatus.FORBIDDEN),
    (refusals.RateLimited, HTTPStatus.TOO_MANY_REQUESTS),
    (refusals.BodyTooLarge, HTTPStatus(413)),
    (refusals.UnusableJson, HTTPStatus.BAD_REQUEST),
    (errors.PayloadTooLarge, HTTPStatus(413)),
    (errors.InvalidInput, HTTPStatus(422)),
    (errors.NotFound, HTTPStatus.NOT_FOUND),
    (errors.IllegalTransition, HTTPStatus.CONFLICT),
    (errors.AlreadyEnqueued, HTTPStatus.CONFLICT),
    (errors.DatabaseUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.SchemaOutdated, HTTPStatus.SERVICE_UNAVAILABLE),
    (SecretsUnreadable, HTTPStatus.SERVICE_UNAVAILABLE),
    (CallFailed, HTTPStatus.BAD_GATEWAY),
)


class FieldError(BaseModel):
    field: str = Field(examples=["body.date_start"])
    message: str = Field(examples=["Field required"])
    code: str = Field(examples=["missing"])


class Problem(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:regente:problem:not_found",
                "title": "Not Found",
                "status": 404,
                "code": "NOT_FOUND",
                "detail": "there is no mission 7",
                "instance": "/api/missions/7",
                "request_id": "3f0c5d9a4b7e4f0f",
            }
        }
    )

    type: str = Field(description="A stable identifier of the kind of problem.")
    title: str
    status: int
    code: str = Field(description="A stable code for programs.")
    detail: str = Field(description="An explanation for people.")
    instance: str | None = Field(None, description="The path of the request.")
    request_id: str | None = Field(
        None, description="Also in the header `x-request-id` and in the log."
    )
    errors: list[FieldError] | None = Field(
        None, description=f"The invalid fields, the first {MAX_FIELDS}."
    )


def problem_of(error: Exception) -> tuple[Problem, dict[str, str]]:
    """The problem and its extra headers. An unexpected error is only described in the log."""
    if isinstance(error, RequestValidationError):
        return _of_validation(error), {}
    if isinstance(error, HTTPException):
        return _problem(
            HTTPStatus(error.status_code).name, error.status_code, str(error.detail)
        ), dict(error.headers or {})
    if isinstance(error, errors.RegenteError):
        return _of_regente(error)
    if isinstance(error, psycopg.errors.QueryCanceled):
        detail = "the query takes too long: narrow its filter or its time range"
        return _problem("QUERY_TOO_SLOW", 503, detail), _retry_after(RETRY_SECONDS)
    if isinstance(error, TIES):
        detail = "another request changed the same rows at that moment: send it again"
        return _problem("TRY_AGAIN", 503, detail), _retry_after(RETRY_SECONDS)
    if isinstance(error, psycopg.DataError):
        return _problem(
            "INVALID_INPUT",
            422,
            "a value cannot be stored or compared: it is out of range or contains \\u0000",
        ), {}
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | PoolTimeout):
        problem = _problem("DATABASE_UNAVAILABLE", 503, "the database is unavailable")
        return problem, _retry_after(RETRY_SECONDS)
    return _problem("INTERNAL", 500, "unexpected error; see the log for this request_id"), {}


def answer(error: Exception, request: Request) -> JSONResponse:
    problem, headers = problem_of(error)
    request_id = getattr(request.state, "request_id", None)
    problem = problem.model_copy(update={"instance": request.url.path, "request_id": request_id})
    fields = {
        "request_id": request_id,
        "code": problem.code,
        "status": problem.status,
        "path": request.url.path,
    }
    if problem.status >= 500:
        unexpected = error if problem.code == "INTERNAL" else None
        logger.error("request failed: %s", problem.code, extra=fields, exc_info=unexpected)
    else:
        logger.info("request refused: %s", problem.code, extra=fields)
    return JSONResponse(problem.model_dump(exclude_none=True), problem.status, headers, MEDIA_TYPE)


def add_problem_answers(app: FastAPI) -> None:
    async def handle(request: Request, error: Exception) -> JSONResponse:
        return answer(error, request)

    for kind in (
        RequestValidationError,
        HTTPException,
        errors.RegenteError,
        psycopg.Error,
        PoolTimeout,
    ):
        app.add_exception_handler(kind, handle)


def _of_regente(error: errors.RegenteError) -> tuple[Problem, dict[str, str]]:
    status = next(
        (status for kind, status in _STATUSES if isinstance(error, kind)),
        HTTPStatus.INTERNAL_SERVER_ERROR,
    )
    headers: dict[str, str] = {}
    if isinstance(error, refusals.Unauthorized):
        headers["www-authenticate"] = 'ApiKey realm="regente", header="x-api-key"'
    if isinstance(error, refusals.Refused) and error.retry_after_seconds is not None:
        headers |= _retry_after(error.retry_after_seconds)
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers |= _retry_after(RETRY_SECONDS)
    return _problem(error.code, status, error.message), headers


def _of_validation(error: RequestValidationError) -> Problem:
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        return _problem("INVALID_JSON", 400, "the body is not valid JSON")
    fields = [
        FieldError(
            field=_path(one)[:MAX_SHOWN_CHARACTERS],
            message=one["msg"][:MAX_SHOWN_CHARACTERS],
            code=one["type"],
        )
        for one in found[:MAX_FIELDS]
    ]
    return _problem("VALIDATION", 422, "a field is invalid: see errors").model_copy(
        update={"errors": fields}
    )


def _path(error: Mapping[str, Any]) -> str:
    return ".".join(str(part) for part in error["loc"])


def _problem(code: str, status: int, detail: str) -> Problem:
    title = HTTPStatus(status).phrase
    return Problem(
        type=f"{TYPE_START}{code.lower()}", title=title, status=status, code=code, detail=detail
    )


def _retry_after(seconds: float) -> dict[str, str]:
    return {"retry-after": str(max(1, math.ceil(seconds)))}


__all__ = ["MEDIA_TYPE", "Problem", "add_problem_answers", "answer", "problem_of"]
