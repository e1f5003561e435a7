"""Adds a request id, security headers, a log line, and a response to unexpected errors."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette._utils import get_route_path
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regente.api.problems import answer
from regente.engine.log import current_request

logger = logging.getLogger("regente.api")

REQUEST_ID_HEADER = "x-request-id"
_USABLE_ID = re.compile(r"[A-Za-z0-9_.\-]{1,64}")

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

HSTS = "max-age=31536000"
"""Over HTTPS: browsers come back over HTTPS only."""


class RequestMiddleware:
    def __init__(self, app: ASGIApp, is_https: bool = False) -> None:
        """`is_https`: browsers come over HTTPS, also where a proxy does not say so."""
        self._app = app
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request = Request(scope)
        request.state.request_id = _request_id(Headers(scope=scope))
        current_request.set(request.state.request_id)
        sender = _HeaderSender(send, request, self._is_https)
        try:
            await self._app(scope, receive, sender)
        except Exception as error:
            if sender.status is not None:  # the response has begun
                logger.exception("response aborted", extra={"request_id": request.state.request_id})
                raise
            await answer(error, request)(scope, receive, sender)
        finally:
            sender.log()


class _HeaderSender:
    """Sends the response with the security headers, and records its status."""

    def __init__(self, send: Send, request: Request, is_https: bool) -> None:
        self._send = send
        self._request = request
        self._is_https = is_https or request.url.scheme == "https"
        self._started = time.monotonic()
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[REQUEST_ID_HEADER] = self._request.state.request_id
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if self._is_https:
                headers.setdefault("strict-transport-security", HSTS)
            if not get_route_path(self._request.scope).startswith("/pages/"):
                headers.setdefault("cache-control", "no-store")
        await self._send(message)

    def log(self) -> None:
        principal = getattr(self._request.state, "principal", None)
        fields = {
            "request_id": self._request.state.request_id,
            "method": self._request.method,
            "path": self._request.url.path,
            "status": self.status,
            "duration_ms": round((time.monotonic() - self._started) * 1000, 1),
            "by": principal.name if principal else None,
        }
        # Health checks come every few seconds.
        level = logging.DEBUG if self._request.url.path.endswith("/api/health") else logging.INFO
        logger.log(level, "request", extra=fields)


def _request_id(headers: Headers) -> str:
    """The client's request id, if it is safe in a log line, else a new one."""
    given = headers.get(REQUEST_ID_HEADER, "")
    return given if _USABLE_ID.fullmatch(given) else secrets.token_hex(8)
