"""Walks a JSON document up to one array, and from there to its end, without building values."""

from __future__ import annotations

import msgspec

from regente.services.writer.failures import JobFailure, WriterCode
from regente.services.writer.json_window import OPENED_BY, Window, malformed, truncated

MAX_DEPTH = 10_000


def split_path(json_path: str) -> tuple[str, ...]:
    """Split `a.b` into its keys; an empty path means that the document itself is the array."""
    return tuple(json_path.split(".")) if json_path else ()


async def enter_array(window: Window, path: tuple[str, ...]) -> None:
    """Move the window just behind the `[` of the array at `path`."""
    token = await _first_token(window)
    for depth, key in enumerate(path):
        if token != b"{":
            raise _path_error(
                path[: depth + 1], f"{_where(path[:depth])} is {_kind(token)}, not an object"
            )
        await _seek(window, key, path[: depth + 1])
        token = await _value_token(window)
    if token != b"[":
        raise _path_error(path, f"{_where(path)} is {_kind(token)}, not an array")


async def leave_document(window: Window, depth: int) -> None:
    """Read from the array's `]` to the document's end; a missing end means a truncated document."""
    for _ in range(depth):
        while (token := await _next(window)) == b",":
            await _key(window)
            await _skip(window)
        if token != b"}":
            raise malformed(f"{_shown(token)} where an object should continue or end")
    if token := await window.token():
        raise malformed(f"{_shown(token)} after its end")


async def _first_token(window: Window) -> bytes:
    await window.fill(512)
    head = window.data[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"<"):
        raise JobFailure(WriterCode.STORAGE, "the source answered HTML or XML, not JSON")
    if not head and window.ended:
        raise JobFailure(WriterCode.STORAGE, "the source is empty")
    if window.data.startswith(b"\xef\xbb\xbf"):
        window.position = 3
    return await _value_token(window)


async def _seek(window: Window, wanted: str, path: tuple[str, ...]) -> None:
    """Move behind the colon of the key `wanted`, in an object just opened."""
    separator = b","
    while separator == b",":
        name = await _key(window, may_end=True)
        if name is None:
            break
        if name == wanted:
            return
        await _skip(window)
        separator = await _next(window)
        if separator not in (b",", b"}"):
            raise malformed(f"{_shown(separator)} where an object should continue or end")
    raise _path_error(path, f"{_where(path[:-1])} has no {wanted!r}")


async def _key(window: Window, *, may_end: bool = False) -> str | None:
    token = await _next(window)
    if may_end and token == b"}":
        return None
    if not token.startswith(b'"') or await _next(window) != b":":
        raise malformed(f"{_shown(token)} where a key and its colon should be")
    try:
        return msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise malformed(f"the key {_shown(token)}") from None


async def _skip(window: Window) -> None:
    token = await _value_token(window)
    brackets: list[bytes] = []
    while True:
        if token in (b"{", b"["):
            brackets.append(token)
        elif token in OPENED_BY and (not brackets or brackets.pop() != OPENED_BY[token]):
            raise malformed(f"an unmatched {_shown(token)}")
        if not brackets:
            return
        if len(brackets) > MAX_DEPTH:
            raise malformed(f"nested deeper than {MAX_DEPTH:,} levels")
        token = await _next(window)


async def _value_token(window: Window) -> bytes:
    token = await _next(window)
    if token in (b"{", b"["):
        return token
    try:
        msgspec.json.decode(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise malformed(f"{_shown(token)} where a value should be") from None
    return token


async def _next(window: Window) -> bytes:
    if token := await window.token():
        return token
    raise truncated()


def _path_error(path: tuple[str, ...], why: str) -> JobFailure:
    return JobFailure(WriterCode.SCHEMA, f"json_path {'.'.join(path)!r}: {why}")


def _where(path: tuple[str, ...]) -> str:
    return repr(".".join(path)) if path else "the document"


def _kind(token: bytes) -> str:
    kinds = {
        b"{": "an object",
        b"[": "an array",
        b"null": "null",
        b"true": "a boolean",
        b"false": "a boolean",
    }
    return kinds.get(token, "a text" if token.startswith(b'"') else "a number")


def _shown(token: bytes) -> str:
    return repr(token[:40].decode(errors="replace"))
