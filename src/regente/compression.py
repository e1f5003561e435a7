"""Decompresses HTTP bodies in pieces of a bounded size, however far they expand."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping

ACCEPTED = "gzip, identity"
"""For the header accept-encoding."""
PIECE_BYTES = 1024 * 1024


class NotDecodable(ValueError):
    """The body has another encoding than its headers say, or one that is not supported."""


async def decompressed(
    raw: AsyncIterator[bytes], headers: Mapping[str, str], *, piece_bytes: int = PIECE_BYTES
) -> AsyncIterator[bytes]:
    """The body. An encoding within an encoding is refused: a kilobyte of it may hold terabytes."""
    encoding = headers.get("content-encoding", "identity").strip().lower() or "identity"
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise NotDecodable(f"is encoded as {encoding[:40]!r}; only gzip is supported")
    if encoding == "identity":
        async for chunk in raw:
            yield chunk
        return
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        async for chunk in raw:
            rest = chunk
            while rest:
                yield inflater.decompress(rest, piece_bytes)
                rest = inflater.unconsumed_tail
    except zlib.error as error:
        raise NotDecodable(f"is not valid gzip: {error}") from None
    if not inflater.eof:
        raise NotDecodable("has gzip data that is cut off")
