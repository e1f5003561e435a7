"""Maps failed calls to the engine's errors: retried, waited out, or final."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

from regente.engine.errors import Fatal, TaskError, Throttled, Transient, UnknownOutcome
from regente.http_client.client import CallFailed, CallFailure

DEFAULT_RETRY_AFTER_SECONDS = 30.0


@contextmanager
def as_task_errors(*, patient: bool = True) -> Iterator[None]:
    """Raise calls' failures inside the block as the engine's errors."""
    try:
        yield
    except CallFailed as failed:
        raise task_error(failed, patient=patient) from failed


def task_error(failed: CallFailed, *, patient: bool = True) -> TaskError:
    """The engine's error. While `patient`, a 429 without Retry-After is waited out as one with it,
    else it uses up a try: an account without credit may answer it for ever. A time of 0 is none."""
    code = (
        f"HTTP_{failed.status}"
        if failed.status is not None
        else f"HTTP_{failed.failure.value.upper()}"
    )
    match failed.failure:
        case CallFailure.THROTTLED if not failed.retry_after and not patient:
            return Transient(failed.message, code=code)
        case CallFailure.THROTTLED:
            delay = failed.retry_after or DEFAULT_RETRY_AFTER_SECONDS
            return Throttled(failed.message, retry_after=delay, code=code)
        case (
            CallFailure.REFUSED
            | CallFailure.TIMEOUT
            | CallFailure.BROKEN
            | CallFailure.SERVER
            | CallFailure.PROTOCOL
        ):
            error = UnknownOutcome if failed.lost_answer else Transient
            return error(failed.message, code=code)
        case CallFailure.UNAUTHORIZED | CallFailure.MISSING | CallFailure.INVALID:
            return Fatal(failed.message, code=code)
        case _:
            assert_never(failed.failure)
