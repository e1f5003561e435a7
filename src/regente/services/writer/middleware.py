"""Checks before every route: key, rate, body size. Only `/health` is open."""

from __future__ import annotations

import hmac
import math

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from regente.asgi.client_address import address_of
from regente.asgi.rate_limiter import RateLimiter
from regente.asgi.request_body import read_body, replay_body
from regente.contracts.worker import API_KEY_HEADER
from regente.services.writer.config import WriterConfig

OPEN_PATH = "/health"


class RequestGuard:
    def __init__(self, app: ASGIApp, config: WriterConfig) -> None:
        self._app = app
        self._key = config.api_key.encode()
        self._body_bytes = config.body_bytes
        self._rates = RateLimiter(config.requests_per_second, config.request_burst)
        self._wrong_keys = RateLimiter(config.wrong_keys_per_second, config.wrong_key_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == OPEN_PATH:
            return await self._app(scope, receive, send)
        refusal, body = self._refusal(scope, Headers(scope=scope)), b""
        if refusal is None:
            try:
                given = await read_body(receive, self._body_bytes)
            except ClientDisconnect:
                return None
            refusal, body = (self._too_large(), b"") if given is None else (None, given)
        if refusal is not None:
            return await refusal(scope, receive, send)
        return await self._app(scope, replay_body(body, receive), send)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        given = headers.get(API_KEY_HEADER, "").encode()
        if not hmac.compare_digest(given, self._key):
            if seconds := self._wrong_keys.take(address_of(scope)):
                return _too_many("too many wrong keys from this address", seconds)
            return JSONResponse({"detail": f"the {API_KEY_HEADER} header is missing or wrong"}, 401)
        if scope["method"] == "POST" and (seconds := self._rates.take("")):
            return _too_many("too many requests", seconds)
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._body_bytes:
            return self._too_large()
        return None

    def _too_large(self) -> JSONResponse:
        return JSONResponse({"detail": f"the body is larger than {self._body_bytes:,} bytes"}, 413)


def _too_many(detail: str, seconds: float) -> JSONResponse:
    return JSONResponse({"detail": detail}, 429, {"retry-after": str(math.ceil(seconds))})
