"""Limits on request bodies (size, JSON depth), ids and pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from typing import Annotated

from fastapi import Path
from starlette._utils import get_route_path
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from regente.api.access.middleware import is_open
from regente.api.config import ApiConfig
from regente.api.errors import BodyTooLarge, JsonTooDeep
from regente.api.problems import answer
from regente.asgi.request_body import read_body, replay_body

MAX_PAGE = 500
MAX_ID = 2**63 - 1
MAX_IDS = 100_000
COUNT_CAP = 10_000
"""Counts stop here; more are shown as "10,000+"."""

OPEN_BODY_BYTES = 4096
"""The limit for requests that need no key."""
CHECKED_AT_ONCE = 64 * 1024
"""The depth of a larger body is checked in a thread, so that the event loop goes on."""

MAX_CONTAINERS = 250_000
"""Lists and objects of one body: 100,000 missions with their languages fit."""

Id = Annotated[int, Path(ge=1, le=MAX_ID, examples=[42])]
MemberId = Annotated[str, Path(pattern=r"^[a-z]{2,4}_[0-9a-f]{1,32}$", max_length=40)]

_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
"""Strings and brackets. A string that does not end is one token up to the end of the body, and
nothing is tried twice, so that the time is linear in the length."""


class BodyLimits:
    """Reads the whole body, and refuses one that is too large or too deeply nested; not for the
    paths of `uploads`."""

    def __init__(self, app: ASGIApp, config: ApiConfig, uploads: Collection[str]) -> None:
        self._app = app
        self._config = config
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "http"
            or scope["method"] in ("GET", "HEAD", "OPTIONS")
            or get_route_path(scope) in self._uploads
        ):
            return await self._app(scope, receive, send)
        try:
            body = await self._body(scope, receive)
        except (BodyTooLarge, JsonTooDeep) as error:
            return await answer(error, Request(scope))(scope, receive, send)
        except ClientDisconnect:
            return None
        return await self._app(scope, replay_body(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._config.max_body_bytes
        if is_open(scope["method"], get_route_path(scope)):
            limit = min(limit, OPEN_BODY_BYTES)
        length = Headers(scope=scope).get("content-length", "")
        announced = int(length) if length.isdigit() else 0
        body = await read_body(receive, limit) if announced <= limit else None
        if body is None:
            raise BodyTooLarge(f"the body has more than {limit:,} bytes")
        if len(body) > CHECKED_AT_ONCE:
            await asyncio.to_thread(check_nesting, body, self._config.max_json_depth)
        else:
            check_nesting(body, self._config.max_json_depth)
        return body


def check_nesting(body: bytes, max_depth: int) -> None:
    """Refuse JSON that is nested too deeply or has too many parts. It counts brackets only, as
    parsers may recurse, and takes a second for a million parts."""
    depth = count = 0
    for found in _TOKENS.finditer(body):
        sign = found[0]
        if sign in (b"[", b"{"):
            depth += 1
            count += 1
            if depth > max_depth:
                raise JsonTooDeep(f"the JSON is nested deeper than {max_depth} levels")
            if count > MAX_CONTAINERS:
                raise BodyTooLarge(f"the JSON has more than {MAX_CONTAINERS:,} lists and objects")
        elif sign in (b"]", b"}"):
            depth -= 1
