"""A loopback source for a writer: three rows, one of them bad, and a record of the requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

BAD_INDEX = 1
_PATH = "/conformance.json"
_MAX_HEAD_BYTES = 64 << 10
_HEAD_SECONDS = 10.0


@dataclass(slots=True)
class LocalSource:
    """A source; `request_headers` has the headers of every request, with names in lower case."""

    conflict_key: str
    port: int = 0
    request_headers: list[dict[str, str]] = field(default_factory=list, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{_PATH}"

    @property
    def rows(self) -> list[dict[str, str | None]]:
        """Rows with the same keys in every run; the bad row has none."""
        keys: list[str | None] = ["regente-conformance-1", None, "regente-conformance-2"]
        return [{self.conflict_key: key} for key in keys]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._reply(head.decode("latin-1")))
                await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # such a request gets no response
        finally:
            writer.close()

    def _reply(self, head: str) -> bytes:
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ", 2)
        if method not in ("GET", "HEAD") or target.split("?")[0] != _PATH:
            return _response("404 Not Found", b'{"detail": "not here"}', method)
        self.request_headers.append(
            {
                name.strip().lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
        )
        return _response("200 OK", json.dumps({"ads": self.rows}).encode(), method)


def _response(status: str, body: bytes, method: str) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: "
        f"{len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == "HEAD" else body)


@contextlib.asynccontextmanager
async def local_source(conflict_key: str) -> AsyncIterator[LocalSource]:
    source, answering = LocalSource(conflict_key), set[asyncio.Task[None]]()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(source.answer(reader, writer))
        answering.add(task)
        task.add_done_callback(answering.discard)

    async with await asyncio.start_server(
        connected, "127.0.0.1", 0, limit=_MAX_HEAD_BYTES
    ) as server:
        source.port = server.sockets[0].getsockname()[1]
        try:
            yield source
        finally:  # a writer that keeps its connection open must not block the close
            for task in answering:
                task.cancel()
            await asyncio.gather(*answering, return_exceptions=True)


__all__ = ["BAD_INDEX", "LocalSource", "local_source"]
