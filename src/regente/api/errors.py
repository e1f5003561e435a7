"""The API's own errors. `problems.py` maps these and those of engine and pipelines to HTTP."""

from __future__ import annotations

from regente.engine.errors import RegenteError


class Refused(RegenteError):
    """Base of the errors that the API raises before it calls the engine."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Unauthorized(Refused):
    code = "UNAUTHORIZED"


class Forbidden(Refused):
    code = "FORBIDDEN"


class CsrfRefused(Forbidden):
    code = "CSRF_REQUIRED"


class RateLimited(Refused):
    code = "RATE_LIMITED"


class BodyTooLarge(Refused):
    code = "BODY_TOO_LARGE"


class UnusableJson(Refused):
    code = "INVALID_JSON"


class JsonTooDeep(UnusableJson):
    code = "JSON_TOO_DEEP"
