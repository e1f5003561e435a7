"""Applies a fault to a response of the library."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from regente.services.sandbox.faults import Fault, FaultKind
from regente.services.sandbox.pages import plain_page

_DRIPS = 50
_HANG_POLL_SECONDS = 0.05


class CutOffResponse(Response):
    """A response that declares its full length, sends half of it and closes the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        await send(
            {
                "type": "http.response.body",
                "body": self.body[: len(self.body) // 2],
                "more_body": True,
            }
        )


async def apply_fault(
    fault: Fault, answer: Response, request: Request, closing: asyncio.Event
) -> Response:
    """Return the response with the fault applied; faults of proxies leave it unchanged."""
    match fault.kind:
        case FaultKind.THROTTLED:
            return refusal(
                429, "Too many requests", {"Retry-After": str(math.ceil(fault.retry_after))}
            )
        case FaultKind.UNAVAILABLE:
            return refusal(fault.status, "Something went wrong")
        case FaultKind.BLOCKED:
            return refusal(403, "Are you a robot?")
        case FaultKind.HANG:
            return await hang(request, closing)
        case FaultKind.DRIP:
            pieces = _drip(bytes(answer.body), fault.seconds)
            return StreamingResponse(pieces, answer.status_code, media_type=answer.media_type)
        case FaultKind.TRUNCATED:
            half = bytes(answer.body)[: len(answer.body) // 2]
            return Response(half, answer.status_code, media_type=answer.media_type)
        case FaultKind.CUT_OFF:
            return CutOffResponse(
                bytes(answer.body), answer.status_code, media_type=answer.media_type
            )
        case _:
            return answer


async def hang(request: Request, closing: asyncio.Event) -> Response:
    """Wait until the client disconnects or the sandbox closes."""
    while not closing.is_set() and not await request.is_disconnected():
        await asyncio.sleep(_HANG_POLL_SECONDS)
    return refusal(503, "Closing")


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    page = plain_page(f"Error {status}", message)
    return Response(page, status, dict(headers or {}), media_type="text/html; charset=utf-8")


async def _drip(body: bytes, seconds: float) -> AsyncIterator[bytes]:
    size = max(1, math.ceil(len(body) / _DRIPS))
    for start in range(0, len(body), size):
        await asyncio.sleep(seconds / _DRIPS)
        yield body[start : start + size]
