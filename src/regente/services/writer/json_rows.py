"""Cuts a JSON array into batches of whole elements without inspecting every byte in Python.

A batch ends at the last `},{` of the window and is decoded as an array of its own. JSON is
unambiguous, so the decoder accepts that array if, and only if, the cut is between two elements; it
refuses a cut inside a nested object or a string. After a few refused cuts, and at the end of the
array, elements are found token by token.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from regente.services.writer.failures import JobFailure, WriterCode
from regente.services.writer.json_window import OPENED_BY, Window, malformed, truncated

_MAX_CUTS = 3
_MAX_CUT_POSITIONS = 64
_BETWEEN = re.compile(rb"[ \t\r\n]*+,[ \t\r\n]*+(?=\{)")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]|"|[^\s"\[\]{},]++', re.DOTALL)
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An element that is not valid JSON but whose end is known."""

    text: str
    error: str


async def _now() -> None:
    pass


class RowReader:
    def __init__(
        self,
        window: Window,
        *,
        batch_bytes: int,
        row_bytes: int,
        before_decoding: Callable[[], Awaitable[object]] = _now,
    ) -> None:
        """`before_decoding` is awaited before each batch; decoding blocks the loop for a while."""
        self._window = window
        self._batch_bytes = batch_bytes
        self._row_bytes = row_bytes
        self._before_decoding = before_decoding
        self._finished = False
        self._started = False

    async def batches(self) -> AsyncIterator[list[Any]]:
        """Yield batches from just behind the array's `[` to just behind its `]`."""
        wanted = self._batch_bytes
        while not self._finished:
            await self._window.fill(wanted)
            await self._before_decoding()
            rows = self._cut() or self._scan()
            if rows:
                self._started, wanted = True, self._batch_bytes
                yield rows
            elif not self._finished:
                wanted = self._more_bytes()

    def _more_bytes(self) -> int:
        if self._window.ahead > self._row_bytes:
            raise JobFailure(
                WriterCode.STORAGE, f"the source has a row longer than {self._row_bytes:,} bytes"
            )
        if self._window.ended:
            raise truncated()
        return max(self._batch_bytes, min(2 * self._window.ahead, self._row_bytes + 1))

    def _cut(self) -> list[Any] | None:
        window, end, tries = self._window, self._window.position + self._batch_bytes, 0
        for _ in range(_MAX_CUT_POSITIONS):
            end = window.data.rfind(b"}", window.position, end)
            if end < 0 or tries == _MAX_CUTS:
                return None
            between = _BETWEEN.match(window.data, end + 1)
            if between is None:
                continue
            tries += 1
            rows = _decoded(window.data[window.position : end + 1])
            if rows is not None:
                window.position = between.end()
                return rows
        return None

    def _scan(self) -> list[Any]:
        """Return the whole elements in the window; set `_finished` when the array ends there."""
        found: list[bytes] = []
        scanner = _ElementScanner(self._window, may_end=not self._started)
        while (element := scanner.element()) is not None:
            found.append(element)
            if scanner.taken_bytes >= self._batch_bytes:
                break
        self._finished = scanner.finished
        if not found:
            return []
        rows = _decoded(b",".join(found))
        return (
            [_decoded_alone(one) for one in found]
            if rows is None or len(rows) != len(found)
            else rows
        )


class _ElementScanner:
    """Steps over elements and commas, never past an element that may be incomplete."""

    def __init__(self, window: Window, *, may_end: bool) -> None:
        self._window = window
        self._may_end = may_end
        self.finished = False
        self.taken_bytes = 0

    def element(self) -> bytes | None:
        """Return the next element that ends, with its comma or bracket, inside the window."""
        if self.finished:
            return None
        window, start, end = self._window, -1, -1
        opened: list[bytes] = []
        for piece in _TOKEN.finditer(window.data, window.position):
            mark = piece.group()
            if mark == b'"':
                return None
            if end >= 0 or (start < 0 and mark in (b"]", b",")):
                return self._close(mark, start, end, piece.end())
            if start < 0:
                start = piece.start()
            if mark in (b"{", b"["):
                opened.append(mark)
            elif mark in (b"}", b"]") and (not opened or opened.pop() != OPENED_BY[mark]):
                raise malformed(f"an unmatched {mark.decode()!r}")
            if not opened:
                end = piece.end()
        return None

    def _close(self, mark: bytes, start: int, end: int, behind: int) -> bytes | None:
        if start < 0 and not (mark == b"]" and self._may_end):
            raise malformed("a comma without a value in the array of rows")
        if mark not in (b",", b"]"):
            raise malformed(
                f"{mark[:40].decode(errors='replace')!r} where a comma should be in the "
                "array of rows"
            )
        element = self._window.data[start:end] if start >= 0 else None
        self.finished, self._may_end = mark == b"]", False
        self.taken_bytes += behind - self._window.position
        self._window.position = behind
        return element


def _decoded(elements: bytes) -> list[Any] | None:
    try:
        rows: list[Any] = msgspec.json.decode(b"[" + elements + b"]")
    except _UNDECODABLE:
        return None
    return rows


def _decoded_alone(element: bytes) -> Any:
    try:
        return msgspec.json.decode(element)
    except RecursionError:
        return Unreadable(element.decode(errors="replace"), "nested too deeply")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unreadable(element.decode(errors="replace"), f"not valid JSON: {error}")
