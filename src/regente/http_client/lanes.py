"""The lanes of calls to HTTP services: what is called, and on which host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from urllib.parse import urlsplit

from regente.engine.lanes import MAX_NAME_CHARACTERS, Lane, LaneLimits

InLane = Callable[[Lane], AbstractAsyncContextManager[None]]
"""Holds a place in the lane for a call: a task's `in_lane`."""


def without_lane(lane: Lane) -> AbstractAsyncContextManager[None]:
    """For calls of programs that are not tasks."""
    return nullcontext()


def lane_of(kind: str, url: str, limits: LaneLimits | None) -> Lane:
    """`kind:host`, with the port if the URL has one. A shop's `www.` is the shop."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "unknown").removeprefix("www.")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:  # refused, with a reason, where it would be called
        host, port = "unknown", ""
    return Lane(f"{kind}:{host}{port}"[:MAX_NAME_CHARACTERS], limits)
