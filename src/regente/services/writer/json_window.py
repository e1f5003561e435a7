"""The part of a JSON document in memory: a few chunks, consumed up to `position`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from regente.services.writer.failures import JobFailure, WriterCode

OPENED_BY = {b"}": b"{", b"]": b"["}

# An unclosed quote is a token of its own: the string continues in the next chunk.
_TOKEN = re.compile(
    rb'[ \t\r\n]*+(?:("[^"\\]*+(?:\\.[^"\\]*+)*+")|([\[\]{}:,])|([^\s\[\]{}:,"]++)|("))', re.DOTALL
)
_BLANK = re.compile(rb"[ \t\r\n]*+")


class Window:
    def __init__(self, chunks: AsyncIterator[bytes], *, limit_bytes: int) -> None:
        self._chunks = chunks
        self._limit_bytes = limit_bytes
        self.data = b""
        self.position = 0
        self.ended = False

    @property
    def ahead(self) -> int:
        return len(self.data) - self.position

    async def fill(self, wanted_bytes: int) -> None:
        """Read until `wanted_bytes` are ahead or the document ends."""
        if self.ended or self.ahead >= wanted_bytes:
            return
        parts = [self.data[self.position :]]
        missing = wanted_bytes - self.ahead
        while missing > 0:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                self.ended = True
                break
            parts.append(chunk)
            missing -= len(chunk)
        self.data = b"".join(parts)
        self.position = 0

    async def token(self) -> bytes:
        """Take the next token; empty at the end of the document."""
        wanted = 4_096
        while True:
            await self.fill(wanted)
            found = _TOKEN.match(self.data, self.position)
            if found and self._is_whole(found):
                self.position = found.end()
                return found.group(found.lastindex or 0)
            if self.ahead > self._limit_bytes:
                raise JobFailure(
                    WriterCode.STORAGE,
                    f"the source has a value longer than {self._limit_bytes:,} bytes",
                )
            if self.ended:
                if _BLANK.fullmatch(self.data, self.position):
                    return b""
                raise truncated()
            wanted = max(wanted, min(2 * self.ahead, self._limit_bytes + 1))

    def _is_whole(self, found: re.Match[bytes]) -> bool:
        if found.lastindex == 4:
            return False
        return found.lastindex != 3 or self.ended or found.end() < len(self.data)


def truncated() -> JobFailure:
    return JobFailure(WriterCode.STORAGE, "the source ends in the middle of its JSON document")


def malformed(what: str) -> JobFailure:
    return JobFailure(WriterCode.STORAGE, f"the source is not valid JSON: {what}")
