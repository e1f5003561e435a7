"""In front of every route: the key first, then the rate, then the size of the body. Only `/health` is open."""

from __future__ import annotations

import hmac
import math
import time

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regente.contracts.worker import API_KEY_HEADER
from regente.services.writer.terms import WriterTerms

OPEN_PATH = "/health"


class Bucket:
    """So many at once, and so many more every second."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = float(burst)
        self._seen = time.monotonic()

    def wait_seconds(self) -> float:
        """0: go ahead. Else: come back then."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._seen) * self._per_second)
        self._seen = now
        if self._left < 1:
            return (1 - self._left) / self._per_second
        self._left -= 1
        return 0.0


class Gate:
    def __init__(self, app: ASGIApp, terms: WriterTerms) -> None:
        self._app = app
        self._key = terms.api_key.encode()
        self._body_bytes = terms.body_bytes
        self._bucket = Bucket(terms.requests_per_second, terms.request_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == OPEN_PATH:
            return await self._app(scope, receive, send)
        refusal, body = self._refusal(scope["method"], Headers(scope=scope)), b""
        if refusal is None:
            given = await self._body(receive)
            refusal, body = (self._too_large(), b"") if given is None else (None, given)
        if refusal is not None:
            return await refusal(scope, receive, send)
        return await self._app(scope, _replayed(body, receive), send)

    def _refusal(self, method: str, headers: Headers) -> JSONResponse | None:
        given = headers.get(API_KEY_HEADER, "").encode()
        if not hmac.compare_digest(given, self._key):
            return JSONResponse({"detail": f"the {API_KEY_HEADER} header is missing or wrong"}, 401)
        if method == "POST" and (seconds := self._bucket.wait_seconds()):
            return JSONResponse({"detail": "too many requests"}, 429, {"retry-after": str(math.ceil(seconds))})
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._body_bytes:
            return self._too_large()
        return None

    async def _body(self, receive: Receive) -> bytes | None:
        """A body without a length is counted as it comes."""
        parts, taken = [], 0
        while True:
            message = await receive()
            parts.append(message.get("body", b""))
            taken += len(parts[-1])
            if taken > self._body_bytes:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> JSONResponse:
        return JSONResponse({"detail": f"the body is larger than {self._body_bytes:,} bytes"}, 413)


def _replayed(body: bytes, receive: Receive) -> Receive:
    coming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return coming.pop() if coming else await receive()

    return replayed
