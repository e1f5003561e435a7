"""Reads the plain top-level fields of a JSON object of any size; its lists and objects are
skipped."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import ijson

MAX_BYTES = 1024 * 1024 * 1024
MAX_TOKEN_BYTES = 1024 * 1024
"""A string or number that comes in pieces is scanned again with each piece."""
MAX_DEPTH = 200


class NotReadable(ValueError):
    """The document is not JSON, or not of a usable size or form."""


class LargeObject:
    def __init__(self, names: Collection[str]) -> None:
        """Keeps the fields with these names."""
        self._fields = _TopLevelFields(names)
        # Without `use_float` a number of many digits crashes the parser.
        self._parser = ijson.basic_parse_coro(self._fields, use_float=True)
        self._count = 0

    def read(self, chunk: bytes) -> None:
        self._count += len(chunk)
        self._fields.silent_bytes += len(chunk)
        if self._count > MAX_BYTES:
            raise NotReadable(f"more than {MAX_BYTES:,} bytes")
        try:
            self._parser.send(chunk)
        except ijson.JSONError as error:
            raise self._not_json(error) from None
        if self._fields.silent_bytes > MAX_TOKEN_BYTES:
            raise NotReadable(f"a string, number or space of more than {MAX_TOKEN_BYTES:,} bytes")

    def end(self) -> dict[str, Any]:
        try:
            self._parser.close()
        except ijson.JSONError as error:
            raise self._not_json(error) from None
        return self._fields.found

    def _not_json(self, error: ijson.JSONError) -> NotReadable:
        return NotReadable(f"{self._count:,} bytes that are not JSON: {error}")


class _TopLevelFields:
    """Receives the parser's events, and keeps the plain fields of the outermost object."""

    def __init__(self, names: Collection[str]) -> None:
        self.found: dict[str, Any] = {}
        self.silent_bytes = 0
        """Bytes since the last event."""
        self._names = names
        self._depth = 0
        self._key: str | None = None

    def send(self, event: tuple[str, Any]) -> None:
        kind, value = event
        self.silent_bytes = 0
        if kind in ("start_map", "start_array"):
            self._depth += 1
            self._key = None
            if self._depth > MAX_DEPTH:
                raise ijson.JSONError("nested too deeply")
        elif kind in ("end_map", "end_array"):
            self._depth -= 1
        elif self._depth == 1 and kind == "map_key":
            self._key = value if value in self._names else None
        elif self._depth == 1 and self._key is not None:
            self.found[self._key], self._key = value, None

    def close(self) -> None:
        """Do nothing; ijson's protocol requires the method."""
