"""Sends a client its frames, notices when it has gone, and lets go of one that takes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regente.api.stream.feed import AWAY, Feed
from regente.api.stream.ring_buffer import RingBuffer
from regente.api.stream.subscription import Subscription
from regente.engine.cancellation import cancel_all

logger = logging.getLogger("regente.api")

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventStream(Response):
    media_type = "text/event-stream"

    def __init__(self, feed: Feed, subscription: Subscription, ring: RingBuffer) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._feed = feed
        self._subscription = subscription
        self._ring = ring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            pump = asyncio.create_task(self._pump(send), name="stream")
            gone = asyncio.create_task(_until_gone(receive), name="stream's client")
            try:
                await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
                if pump.done():
                    pump.result()
            finally:
                await cancel_all([pump, gone])
        finally:
            self._feed.leave(self._subscription)

    async def _pump(self, send: Send) -> None:
        chunks = self._subscription.chunks(self._ring)
        async with contextlib.aclosing(_until_away(chunks)) as frames:
            try:
                async for chunk in frames:
                    async with asyncio.timeout(self._feed.config.send_seconds):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                async with asyncio.timeout(self._feed.config.send_seconds):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            except TimeoutError:
                self._feed.dropped += 1
                logger.info("a stream's reader is too slow: dropped")


async def _until_away(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """A database that is away while a client reads its backlog ends the stream: it comes again and
    goes on from there."""
    try:
        async for chunk in chunks:
            yield chunk
    except AWAY as error:
        logger.warning("a stream cannot read what it missed", extra={"error": type(error).__name__})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
