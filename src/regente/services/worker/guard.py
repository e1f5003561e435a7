"""What a request passes before any route sees it: the rate limit, the key, the size of its body."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regente.contracts.worker import API_KEY_HEADER
from regente.services.worker.errors import error_response

_MAX_CLIENTS = 10_000
_MAX_DISCARDED_BYTES = 64_000_000


class Guard:
    def __init__(
        self, app: ASGIApp, *, api_key: str, max_body_bytes: int, requests_per_minute: int, is_open: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._key = _digest(api_key)
        self._max_body_bytes = max_body_bytes
        self._limit = RateLimit(requests_per_minute)
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        body = await _read_body(receive, self._max_body_bytes)
        if body is None:
            message = f"the body is larger than {self._max_body_bytes} bytes"
            await error_response(413, "body_too_large", message)(scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        wait = self._limit.wait_seconds(scope["client"][0] if scope.get("client") else "")
        if wait > 0:
            return error_response(429, "too_many_requests", "too many requests from this client", retry_after=wait)
        given = Headers(scope=scope).get(API_KEY_HEADER, "")
        if not hmac.compare_digest(_digest(given), self._key):
            return error_response(401, "unauthorized", f"the header {API_KEY_HEADER} is missing or wrong")
        return None


class RateLimit:
    """So many a minute for each client, with room for a burst of a tenth of that."""

    def __init__(self, per_minute: int) -> None:
        self._per_second = per_minute / 60
        self._burst = max(1.0, per_minute / 10)
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, client: str) -> float:
        """0 lets the request pass, and counts it."""
        now = time.monotonic()
        tokens, since = self._clients.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        allowed = tokens >= 1
        self._clients[client] = (tokens - 1 if allowed else tokens, now)
        if len(self._clients) > _MAX_CLIENTS:
            self._clients.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._per_second


async def _read_body(receive: Receive, limit: int) -> bytes | None:
    """None when it is too large. The rest is read and thrown away, so that the client gets to hear the answer."""
    pieces, size, more = [], 0, True
    while more and size <= _MAX_DISCARDED_BYTES:
        message = await receive()
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
        more = message["type"] == "http.request" and message.get("more_body", False)
    return b"".join(pieces) if size <= limit else None


def _replay(body: bytes, receive: Receive) -> Receive:
    told = False

    async def receive_again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
