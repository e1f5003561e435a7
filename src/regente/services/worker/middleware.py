"""Checks before any route: key, rate limit, body size."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from regente.asgi.client_address import address_of
from regente.asgi.rate_limiter import RateLimiter
from regente.asgi.request_body import read_body, replay_body
from regente.contracts.worker import API_KEY_HEADER
from regente.services.worker.errors import error_response

WRONG_KEYS_PER_SECOND = 1.0
WRONG_KEY_BURST = 40
_MAX_DISCARDED_BYTES = 64_000_000


class RequestGuard:
    def __init__(
        self,
        app: ASGIApp,
        *,
        api_key: str,
        max_body_bytes: int,
        requests_per_minute: int,
        is_open: Callable[[str], bool],
    ) -> None:
        self._app = app
        self._key = _digest(api_key)
        self._max_body_bytes = max_body_bytes
        self._rates = RateLimiter(requests_per_minute / 60, max(1, requests_per_minute // 10))
        self._wrong_keys = RateLimiter(WRONG_KEYS_PER_SECOND, WRONG_KEY_BURST)
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        try:
            body = await read_body(
                receive, self._max_body_bytes, discard_bytes=_MAX_DISCARDED_BYTES
            )
        except ClientDisconnect:
            return
        if body is None:
            message = f"the body is larger than {self._max_body_bytes} bytes"
            await error_response(413, "body_too_large", message)(scope, receive, send)
            return
        await self._app(scope, replay_body(body, receive), send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        client = address_of(scope)
        given = Headers(scope=scope).get(API_KEY_HEADER, "")
        if not hmac.compare_digest(_digest(given), self._key):
            if wait := self._wrong_keys.take(client):
                return _too_many("too many wrong keys from this client", wait)
            return error_response(
                401, "unauthorized", f"the header {API_KEY_HEADER} is missing or wrong"
            )
        if wait := self._rates.take(client):
            return _too_many("too many requests from this client", wait)
        return None


def _too_many(message: str, wait: float) -> JSONResponse:
    return error_response(429, "too_many_requests", message, retry_after=wait)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
