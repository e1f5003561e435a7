"""Limits on request bodies (size, JSON depth), ids and pages."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Path
from starlette._utils import get_route_path
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from regente.api.config import ApiConfig
from regente.api.errors import BodyTooLarge, JsonTooDeep
from regente.api.problems import answer
from regente.asgi.request_body import read_body, replay_body

MAX_PAGE = 500
MAX_ID = 2**63 - 1
MAX_IDS = 100_000
COUNT_CAP = 10_000
"""Counts stop here; more are shown as "10,000+"."""

UPLOADS = frozenset({"/api/documents/executions"})
"""Paths whose handlers read the body as a stream, with a limit of their own."""

Id = Annotated[int, Path(ge=1, le=MAX_ID, examples=[42])]
MemberId = Annotated[str, Path(pattern=r"^[a-z]{2,4}_[0-9a-f]{1,32}$", max_length=40)]

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


class BodyLimits:
    """Reads the whole body, and refuses one that is too large or too deeply nested."""

    def __init__(self, app: ASGIApp, config: ApiConfig) -> None:
        self._app = app
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "http"
            or scope["method"] in ("GET", "HEAD", "OPTIONS")
            or get_route_path(scope) in UPLOADS
        ):
            return await self._app(scope, receive, send)
        try:
            body = await self._body(Headers(scope=scope), receive)
        except (BodyTooLarge, JsonTooDeep) as error:
            return await answer(error, Request(scope))(scope, receive, send)
        return await self._app(scope, replay_body(body, receive), send)

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        limit = self._config.max_body_bytes
        length = headers.get("content-length", "")
        announced = int(length) if length.isdigit() else 0
        body = await read_body(receive, limit) if announced <= limit else None
        if body is None:
            raise BodyTooLarge(f"the body has more than {limit:,} bytes")
        if depth_exceeds(body, self._config.max_json_depth):
            raise JsonTooDeep(
                f"the JSON is nested deeper than {self._config.max_json_depth} levels"
            )
        return body


def depth_exceeds(body: bytes, limit: int) -> bool:
    """Whether the JSON is nested deeper than `limit`; counts brackets, as parsers may recurse."""
    depth = 0
    for found in _BRACKETS.finditer(body):
        sign = found[0]
        if sign in (b"[", b"{"):
            depth += 1
            if depth > limit:
                return True
        elif sign in (b"]", b"}"):
            depth -= 1
    return False
