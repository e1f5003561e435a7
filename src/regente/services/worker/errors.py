"""Error responses of a worker: `{"error": {"code", "message"}}`, without stack traces."""

from __future__ import annotations

import logging
import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

logger = logging.getLogger("regente.worker")

_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}


class Refused(Exception):
    """A request that is refused, with its status, code and reason."""

    def __init__(
        self, status: int, code: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after


def error_response(
    status: int, code: str, message: str, *, retry_after: float | None = None, **details: Any
) -> JSONResponse:
    headers = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
    return JSONResponse({"error": {"code": code, "message": message, **details}}, status, headers)


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _internal)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    return error_response(error.status, error.code, error.message, retry_after=error.retry_after)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Respond 400 without JSON, 422 with the names of wrong fields; their values may be secret."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        return error_response(400, "invalid_json", "the body is not valid JSON")
    fields = [
        {"field": ".".join(map(str, one["loc"][1:])) or "body", "message": one["msg"]}
        for one in found
    ]
    message = "; ".join(f"{one['field']}: {one['message']}" for one in fields[:10])
    return error_response(422, "validation_failed", message, fields=fields[:100])


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _HTTP_CODES.get(error.status_code, "bad_request")
    answer = error_response(error.status_code, code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


async def _internal(request: Request, error: Exception) -> JSONResponse:
    logger.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__)
    return error_response(500, "internal", "internal error of the worker; its log has the details")
