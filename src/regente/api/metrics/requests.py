"""Counts and times every request by its route; by path, the number of series would be unlimited."""

from __future__ import annotations

import time

from prometheus_client import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NO_ROUTE = "none"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
STREAM = b"text/event-stream"


class RequestTimes:
    def __init__(self, app: ASGIApp, histogram: Histogram) -> None:
        self._app = app
        self._histogram = histogram

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started_at = time.monotonic()
        status, streamed_at = 500, None

        async def observe(message: Message) -> None:
            nonlocal status, streamed_at
            if message["type"] == "http.response.start":
                status = message["status"]
                if any(
                    name == b"content-type" and value.startswith(STREAM)
                    for name, value in message["headers"]
                ):
                    streamed_at = time.monotonic()
            await send(message)

        try:
            await self._app(scope, receive, observe)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = getattr(scope.get("route"), "path", NO_ROUTE)
            seconds = (streamed_at or time.monotonic()) - started_at
            self._histogram.labels(method, route, str(status)).observe(seconds)
