"""A TCP proxy in front of PostgreSQL that a test takes away and brings back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_CHUNK_BYTES = 65_536


class TcpProxy:
    """While it is away it closes every connection at once; `refused` counts those."""

    def __init__(self, server_url: str) -> None:
        parts = conninfo_to_dict(server_url)
        self._host, self._port = str(parts["host"]), int(parts.get("port") or 5432)
        self._server_url = server_url
        self._open: set[asyncio.StreamWriter] = set()
        self.away = False
        self.refused = 0
        self.url = ""

    def take_away(self) -> None:
        self.away = True
        for writer in self._open:
            writer.transport.abort()

    def bring_back(self) -> None:
        self.away = False

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[TcpProxy]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = make_conninfo(self._server_url, host="127.0.0.1", port=port)
        try:
            yield self
        finally:
            self.take_away()
            server.close()
            while self._open:  # the handlers end with their connections
                await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.away:
            self.refused += 1
            writer.transport.abort()
            return
        there_reader, there = await self._connect()
        self._open |= {writer, there}
        try:
            await asyncio.gather(_forward(reader, there), _forward(there_reader, writer))
        finally:
            self._open -= {writer, there}

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        return await asyncio.open_connection(self._host, self._port)


async def _forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await source.read(_CHUNK_BYTES):
            target.write(chunk)
            await target.drain()
    target.close()


@contextlib.asynccontextmanager
async def proxy_before(server_url: str) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(server_url).serving() as proxy:
        yield proxy
