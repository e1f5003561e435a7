"""A server that counts, by lane, the connections that it serves at once, and when each began."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict


class Target:
    """Knows nothing of the engine. A connection counts from its first line until the answer, or
    until its client is gone."""

    def __init__(self, service_seconds: float) -> None:
        self._service_seconds = service_seconds
        self.now: dict[str, int] = defaultdict(int)
        self.most: dict[str, int] = defaultdict(int)
        self.began: dict[str, list[float]] = defaultdict(list)
        self.port = 0

    async def __aenter__(self) -> Target:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lane = (await reader.readline()).decode().strip()
        self.now[lane] += 1
        self.most[lane] = max(self.most[lane], self.now[lane])
        self.began[lane].append(time.monotonic())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._service_seconds):
                await reader.read()  # ends when the client is gone
        self.now[lane] -= 1
        with contextlib.suppress(ConnectionError):
            writer.write(b"ok\n")
            writer.close()
            await writer.wait_closed()
