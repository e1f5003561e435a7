"""Serves the console's files and pages, and passes every other request to the API.

The files hold no data, so they need no authentication. Every page is the same document, whose
script shows the page of the URL.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from starlette._utils import get_route_path
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from regente.console.files import INDEX, File, from_bytes, load

PAGES = frozenset(
    {
        "",
        "sign-in",
        "missions",
        "batches",
        "results",
        "failures",
        "fleet",
        "runners",
        "audit",
        "settings",
    }
)
MAX_DEPTH = 8
"""A page with more segments does not exist; each makes the document longer."""
ASSETS = "assets/"
_IMMUTABLE = "public, max-age=31536000, immutable"
_REVALIDATE = "no-cache"
_NOT_BUILT = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Regente</title></head>
<body><h1>Regente</h1><p>The console has not been built here: this is a source tree,
or an installation without it. In the source tree, run <code>python scripts/console.py</code>.</p>
<p>The API is there: <a href="docs">its documentation</a>, <a href="sign-in">sign in</a>.</p>
</body></html>
"""


class Console:
    """ASGI middleware around the API. Without built files `/` explains how to build them."""

    def __init__(
        self,
        app: ASGIApp,
        files: Mapping[str, File] | None = None,
        shown: Sequence[str] | None = None,
    ) -> None:
        """`shown`: the pipelines of which it shows pages; none given: all that it knows."""
        self._app = app
        self._files = load() if files is None else files
        self._shown = shown
        self._page = functools.lru_cache(maxsize=8)(self._page_of_depth)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = (
            self._response(scope)
            if scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
            else None
        )
        await (response or self._app)(scope, receive, send)

    def _response(self, scope: Scope) -> Response | None:
        path = get_route_path(scope)
        if path == "" and scope.get("root_path"):
            return RedirectResponse(f"{scope['root_path']}/")
        name = path.removeprefix("/")
        if not self._files:
            return (
                _answer(scope, from_bytes(_NOT_BUILT, "text/html"), "no-store")
                if name == ""
                else None
            )
        if name in self._files and name != INDEX:
            return _answer(
                scope,
                self._files[name],
                _IMMUTABLE if name.startswith(ASSETS) else _REVALIDATE,
            )
        first = name.split("/")[0]
        if first in PAGES and (first or not name) and name.count("/") <= MAX_DEPTH:
            return _answer(scope, self._page(name.count("/")), _REVALIDATE)
        return None

    def _page_of_depth(self, depth: int) -> File:
        """The document names its files from its own place: a page deeper down has to
        go up first."""
        body = self._files[INDEX].body
        if depth:
            body = body.replace(b'="./', b'="' + b"../" * depth)
        if self._shown is not None:
            told = f'<meta name="regente-pages" content="{" ".join(self._shown)}">'
            body = body.replace(b"</head>", told.encode() + b"</head>", 1)
        return from_bytes(body, "text/html")


def _answer(scope: Scope, file: File, cache: str) -> Response:
    request_headers = Headers(scope=scope)
    headers = {"etag": file.etag, "cache-control": cache, "vary": "accept-encoding"}
    if request_headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request_headers.get("accept-encoding", ""):
        return Response(
            file.gzipped,
            media_type=file.media_type,
            headers={**headers, "content-encoding": "gzip"},
        )
    return Response(file.body, media_type=file.media_type, headers=headers)
