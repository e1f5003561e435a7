"""An SSE client by the standard over a plain connection, independent of our code."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2


@dataclass(frozen=True, slots=True)
class Frame:
    name: str
    id: str
    data: Any


@contextlib.asynccontextmanager
async def stream(
    client: httpx2.AsyncClient, last_event_id: str | None = None, **query: Any
) -> AsyncIterator[AsyncIterator[Frame]]:
    headers = {} if last_event_id is None else {"last-event-id": last_event_id}
    async with client.stream(
        "GET", "/api/stream", params=query, headers=headers, timeout=None
    ) as response:
        assert response.status_code == 200, await response.aread()
        yield frames(response.aiter_lines())


async def frames(lines: AsyncIterator[str]) -> AsyncIterator[Frame]:
    name, place, data = "message", "", None
    async for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "id":
            place = value
        elif field == "data":
            data = json.loads(value)
        elif not line and data is not None:
            yield Frame(name, place, data)
            name, data = "message", None


async def take(
    source: AsyncIterator[Frame], count: int, *, within_seconds: float = 10.0
) -> list[Frame]:
    """The next events, without heartbeats."""
    found: list[Frame] = []
    async with asyncio.timeout(within_seconds):
        async for frame in source:
            if frame.name != "heartbeat":
                found.append(frame)
            if len(found) == count:
                return found
    raise AssertionError(f"the stream ended after {len(found)} of {count} events")


async def next_named(
    source: AsyncIterator[Frame], name: str, *, within_seconds: float = 10.0
) -> Frame:
    async with asyncio.timeout(within_seconds):
        async for frame in source:
            if frame.name == name:
                return frame
    raise AssertionError(f"the stream ended without {name}")


async def connect(
    url: str, key: str, path: str = "/api/stream"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A raw connection whose response headers were read; for clients that do not read the body."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=2**16)
    writer.write(
        f"GET {path} HTTP/1.1\r\nhost: {parts.netloc}\r\nx-api-key: {key}\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return reader, writer
