"""Reads a request body with a size limit, and replays it for the application."""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive


async def read_body(receive: Receive, limit: int, *, discard_bytes: int = 0) -> bytes | None:
    """Return the body, or None when it exceeds the limit. Raises `ClientDisconnect` when the
    connection ends before the body: a part of it must not be taken for the whole.

    Up to `discard_bytes` of an excessive body are read and dropped, so that the client receives
    the response.
    """
    chunks, size, more = [], 0, True
    while more and size <= max(limit, discard_bytes):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
        more = message.get("more_body", False)
    return b"".join(chunks) if size <= limit else None


def replay_body(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_replayed() -> Message:
        return messages.pop() if messages else await receive()

    return receive_replayed
