"""An HTTP server that sends exactly a test's bytes: whole, cut off, slow, with wrong headers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[["Visit"], Awaitable[None]]


@dataclass(slots=True)
class Visit:
    path: str
    headers: dict[str, str]
    number: int
    """Number of requests for this path, from 1."""
    writer: asyncio.StreamWriter = field(repr=False)

    async def head(self, status: int = 200, /, **headers: object) -> None:
        lines = [
            f"HTTP/1.1 {status} Scripted",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        await self.send("\r\n".join([*lines, "connection: close", "\r\n"]).encode())

    async def send(self, body: bytes) -> None:
        self.writer.write(body)
        await self.writer.drain()

    def reset(self) -> None:
        """Close with an RST instead of a FIN."""
        self.writer.transport.abort()


class SourceServer:
    def __init__(self) -> None:
        self.url = ""
        self.visits: list[Visit] = []
        self._answers: dict[str, Answer] = {}
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def on(self, path: str, answer: Answer) -> str:
        self._answers[path] = answer
        return f"{self.url}{path}"

    def serve(self, document: Any, path: str = "/data.json", **headers: object) -> str:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()

        async def answer(visit: Visit) -> None:
            await visit.head(
                200, **{"content_type": "application/json", "content_length": len(body), **headers}
            )
            await visit.send(body)

        return self.on(path, answer)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[SourceServer]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            server.close()
            talks = dict(self._open)
            for task in talks:
                task.cancel()
            await asyncio.gather(*talks, return_exceptions=True)
            for writer in talks.values():
                writer.close()  # a connection that was canceled before it began has closed nothing
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._talk(reader, writer))
        self._open[task] = writer
        task.add_done_callback(self._open.pop)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        path = head[0].split()[1]
        headers = {
            name.lower(): value
            for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        number = sum(one.path == path for one in self.visits) + 1
        visit = Visit(path, headers, number, writer)
        self.visits.append(visit)
        await self._answers.get(path, _nothing)(visit)


async def _nothing(visit: Visit) -> None:
    await visit.head(404, content_length=0)


def ad(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"ad-{number}",
        "page_name": f"Página {number % 7}",
        "text": f'Text {number} with "quotes", {{braces}}, [brackets], tab \t, newline \n, slash '
        "\\ and ünïcödé",
        "format": "video",
        "language": "pt",
        "started_on": f"2025-01-{number % 28 + 1:02d}",
        "qtd_ads": number % 50,
    } | fields


def ads(count: int) -> list[dict[str, Any]]:
    return [ad(number) for number in range(count)]
