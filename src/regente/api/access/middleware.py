"""Authentication, rate limit and CSRF check of every request, except for paths that are `is_open`.

The route itself checks its role (`roles.py`).
"""

from __future__ import annotations

import os
import re

import psycopg
from psycopg_pool import PoolTimeout
from starlette._utils import get_route_path
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regente.api.access.cookies import session_cookie
from regente.api.access.denials import DENIED, SIGN_IN, Denials
from regente.api.access.keys import ApiKeys
from regente.api.access.principal import UNAUTHENTICATED, Principal
from regente.api.access.sessions import CSRF_HEADER, ConsoleSessions, csrf_matches
from regente.api.config import ApiConfig
from regente.api.errors import CsrfRefused, RateLimited, Unauthorized
from regente.api.problems import answer
from regente.asgi.client_address import address_of
from regente.asgi.peer_user import user_id_of
from regente.asgi.rate_limiter import RateLimiter
from regente.engine.errors import RegenteError

KEY_HEADER = "x-api-key"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
FORWARDING_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_HOST_NAME = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?")

OPEN_PATHS = frozenset({"/api/health", "/sign-in"})
OPEN_FOLDERS = ("/pages/",)
"""Files of the sign-in page and the console; they contain no data."""


OPEN_OPERATIONS = frozenset(
    {
        SIGN_IN,
        ("GET", "/api/session/providers"),
        ("GET", "/api/session/oidc"),
        ("GET", "/api/session/oidc/callback"),
    }
)


def is_open(method: str, path: str) -> bool:
    if path in OPEN_PATHS or path.startswith(OPEN_FOLDERS):
        return True
    return (method, path) in OPEN_OPERATIONS


class AccessMiddleware:
    """Also audits what it or a route denies."""

    def __init__(
        self,
        app: ASGIApp,
        config: ApiConfig,
        keys: ApiKeys,
        sessions: ConsoleSessions,
        wrong_keys: RateLimiter,
        denials: Denials,
    ) -> None:
        self._app = app
        self._config = config
        self._keys = keys
        self._sessions = sessions
        self._rates = RateLimiter(config.requests_per_second, config.request_burst)
        self._wrong_keys = wrong_keys
        self._denials = denials

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def send_audited(message: Message) -> None:
            status = message.get("status")
            if status in DENIED and self._presented_something(scope):
                principal = getattr(request.state, "principal", None)
                await self._denials.record(request, status, principal)
            await send(message)

        await self._serve(request, receive, send_audited)

    async def _serve(self, request: Request, receive: Receive, send: Send) -> None:
        scope = request.scope
        try:
            if not is_open(scope["method"], get_route_path(scope)):
                await self._admit(request)
        except (RegenteError, psycopg.Error, PoolTimeout) as error:
            return await answer(error, request)(scope, receive, send)
        return await self._app(scope, receive, send)

    async def _admit(self, request: Request) -> None:
        """Note the request's author; raises when it is refused."""
        scope, headers = request.scope, request.headers
        if not self._config.authentication:
            _check_local(request)
            request.state.principal = UNAUTHENTICATED
            return
        principal = await self._authenticate(scope, headers)
        request.state.principal = principal
        if principal.via == "session" and scope["method"] not in SAFE_METHODS:
            _check_csrf(session_cookie(scope, self._config).read(scope) or "", headers)
        if seconds := self._rates.take(principal.account_id):
            raise RateLimited("too many requests with this key", retry_after_seconds=seconds)

    async def _authenticate(self, scope: Scope, headers: Headers) -> Principal:
        secret, cookie = headers.get(KEY_HEADER), session_cookie(scope, self._config).read(scope)
        if secret is None and cookie is None:
            raise Unauthorized(f"send an API key in the header {KEY_HEADER}, or sign in")
        if secret is not None:
            principal = await self._keys.principal(secret)
        else:
            assert cookie is not None
            principal = await self._sessions.principal(cookie)
        if principal is None:
            raise wrong_key(
                self._wrong_keys, scope, "the API key or session is not valid, or not any more"
            )
        return principal

    def _presented_something(self, scope: Scope) -> bool:
        """Whether the request tried to sign in or had a key or session; others are no attempt."""
        if KEY_HEADER in Headers(scope=scope) or session_cookie(scope, self._config).read(scope):
            return True
        return (scope["method"], get_route_path(scope)) == SIGN_IN


def wrong_key(wrong_keys: RateLimiter, scope: Scope, message: str) -> Unauthorized | RateLimited:
    """The error for a wrong key or session. It counts against the client's address; a right key
    from the same address is still accepted."""
    if seconds := wrong_keys.take(address_of(scope)):
        return RateLimited("too many wrong keys from this address", retry_after_seconds=seconds)
    return Unauthorized(message)


def _check_csrf(cookie: str, headers: Headers) -> None:
    if not csrf_matches(cookie, headers.get(CSRF_HEADER, "")):
        raise CsrfRefused(f"with a session, send its csrf_token in the header {CSRF_HEADER}")


def _check_local(request: Request) -> None:
    """Without authentication, refuse requests from pages of other origins, by other host names,
    of other users of this machine, and through a reverse proxy, which would open the API to its
    clients. One that adds no header, as nginx does by default, is known by HTTP/1.0 or its user."""
    headers, method = request.headers, request.method
    proxied = any(name in headers for name in FORWARDING_HEADERS)
    if proxied or request.scope["http_version"] == "1.0":
        raise Unauthorized("without authentication the API is not served through a proxy")
    if request.client is not None:
        user_id = user_id_of(request.client.host, request.client.port)
        if user_id not in (None, os.getuid()):
            raise Unauthorized("without authentication the API serves the user who started it")
    host, origin = headers.get("host", ""), headers.get("origin")
    if _HOST_NAME.fullmatch(host) is None:
        raise Unauthorized("without authentication the API serves localhost only")
    if method not in SAFE_METHODS and origin is not None and origin.partition("://")[2] != host:
        raise CsrfRefused("the request comes from another origin")


__all__ = [
    "KEY_HEADER",
    "SAFE_METHODS",
    "SIGN_IN",
    "AccessMiddleware",
    "is_open",
    "wrong_key",
]
