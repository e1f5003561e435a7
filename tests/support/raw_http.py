"""Sends HTTP requests exactly as they are written, on one connection while it lasts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit


class RawClient:
    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, url: str) -> AsyncIterator[RawClient]:
        parts = urlsplit(url)
        client = cls(parts.hostname or "", parts.port or 80)
        try:
            yield client
        finally:
            client.close()

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], *, body: bytes = b""
    ) -> tuple[int, dict[str, str]]:
        """The status and the headers of the answer."""
        given = {"host": f"localhost:{self._port}", "content-length": str(len(body)), **headers}
        lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in given.items())]
        return await self.send_bytes("\r\n".join([*lines, "\r\n"]).encode() + body, method)

    async def send_bytes(self, request: bytes, method: str = "GET") -> tuple[int, dict[str, str]]:
        reader, writer = self._open = self._open or await asyncio.open_connection(
            self._host, self._port
        )
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])
        }
        status = int(head[0].split()[1])
        if method != "HEAD" and status not in (204, 304):
            await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return status, headers

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
        self._open = None
