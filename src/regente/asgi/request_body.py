"""The body of a request, read with a limit before anything else sees it, and handed on as if it had
just come."""

from __future__ import annotations

from starlette.types import Message, Receive


async def read_body(receive: Receive, limit: int, *, discard_bytes: int = 0) -> bytes | None:
    """None when it is larger than the limit, counted as it comes.

    So much of what is too large is read and thrown away, so that the client gets to hear the
    answer.
    """
    pieces, size, more = [], 0, True
    while more and size <= max(limit, discard_bytes):
        message = await receive()
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
        more = message["type"] == "http.request" and message.get("more_body", False)
    return b"".join(pieces) if size <= limit else None


def replay_body(body: bytes, receive: Receive) -> Receive:
    coming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return coming.pop() if coming else await receive()

    return again
