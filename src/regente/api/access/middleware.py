"""Authentication, rate limit and CSRF check of every request, except for paths that are `is_open`.

The route itself checks its role (`roles.py`).
"""

from __future__ import annotations

import re

import psycopg
from psycopg_pool import PoolTimeout
from starlette._utils import get_route_path
from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from regente.api.access.keys import ApiKeys
from regente.api.access.principal import UNAUTHENTICATED, Principal
from regente.api.access.sessions import COOKIE, CSRF_HEADER, ConsoleSessions, csrf_matches
from regente.api.config import ApiConfig
from regente.api.errors import CsrfRefused, RateLimited, Unauthorized
from regente.api.problems import answer
from regente.asgi.rate_limiter import RateLimiter
from regente.engine.errors import RegenteError

KEY_HEADER = "x-api-key"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_HOST_NAME = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?")

OPEN_PATHS = frozenset({"/api/health", "/sign-in"})
OPEN_FOLDERS = ("/pages/",)
"""Files of the sign-in page and the console; they contain no data."""
SIGN_IN = ("POST", "/api/session")
"""The route that checks the credentials itself."""


def is_open(method: str, path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS) or (method, path) == SIGN_IN


class AccessMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        config: ApiConfig,
        keys: ApiKeys,
        sessions: ConsoleSessions,
        wrong_keys: RateLimiter,
    ) -> None:
        self._app = app
        self._config = config
        self._keys = keys
        self._sessions = sessions
        self._rates = RateLimiter(config.requests_per_second, config.request_burst)
        self._wrong_keys = wrong_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request = Request(scope)
        try:
            if not is_open(scope["method"], get_route_path(scope)):
                request.state.principal = await self._admit(scope)
        except (RegenteError, psycopg.Error, PoolTimeout) as error:
            return await answer(error, request)(scope, receive, send)
        return await self._app(scope, receive, send)

    async def _admit(self, scope: Scope) -> Principal:
        headers = Headers(scope=scope)
        if not self._config.authentication:
            _check_local(scope["method"], headers)
            return UNAUTHENTICATED
        principal = await self._authenticate(scope, headers)
        if seconds := self._rates.take(principal.key_id):
            raise RateLimited("too many requests with this key", retry_after_seconds=seconds)
        return principal

    async def _authenticate(self, scope: Scope, headers: Headers) -> Principal:
        secret, cookie = headers.get(KEY_HEADER), session_cookie(headers)
        if secret is None and cookie is None:
            raise Unauthorized(f"send an API key in the header {KEY_HEADER}, or sign in")
        if secret is not None:
            principal = await self._keys.principal(secret)
        else:
            assert cookie is not None
            principal = await self._sessions.principal(cookie)
            if principal is not None and scope["method"] not in SAFE_METHODS:
                _check_csrf(cookie, headers)
        if principal is None:
            raise wrong_key(
                self._wrong_keys, scope, "the API key or session is not valid, or not any more"
            )
        return principal


def wrong_key(wrong_keys: RateLimiter, scope: Scope, message: str) -> Unauthorized | RateLimited:
    """The error for a wrong key or session. It counts against the client's address; a right key
    from the same address is still accepted."""
    if seconds := wrong_keys.take(address_of(scope)):
        return RateLimited("too many wrong keys from this address", retry_after_seconds=seconds)
    return Unauthorized(message)


def session_cookie(headers: Headers) -> str | None:
    return cookie_parser(headers.get("cookie", "")).get(COOKIE)


def _check_csrf(cookie: str, headers: Headers) -> None:
    if not csrf_matches(cookie, headers.get(CSRF_HEADER, "")):
        raise CsrfRefused(f"with a session, send its csrf_token in the header {CSRF_HEADER}")


def _check_local(method: str, headers: Headers) -> None:
    """Without authentication, refuse requests from pages of other origins and other host names."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if _HOST_NAME.fullmatch(host) is None:
        raise Unauthorized("without authentication the API serves localhost only")
    if method not in SAFE_METHODS and origin is not None and origin.partition("://")[2] != host:
        raise CsrfRefused("the request comes from another origin")


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


__all__ = [
    "KEY_HEADER",
    "SAFE_METHODS",
    "AccessMiddleware",
    "is_open",
    "session_cookie",
    "wrong_key",
]
