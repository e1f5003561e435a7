"""Sends a client its frames, and drops a client that reads none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from regente.api.stream.feed import UNAVAILABLE, Feed
from regente.api.stream.ring_buffer import RingBuffer
from regente.api.stream.subscription import Subscription

logger = logging.getLogger("regente.api")

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class ClientTooSlow(Exception):
    """Not a `TimeoutError`, which is an `OSError`: Starlette would take the client for gone."""


class EventStream(StreamingResponse):
    media_type = "text/event-stream"

    def __init__(self, feed: Feed, subscription: Subscription, ring: RingBuffer) -> None:
        self._feed = feed
        self._subscription = subscription
        self._frames = _until_unavailable(subscription.chunks(ring))
        super().__init__(self._frames, headers=HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._feed.config.send_seconds):
                    await send(message)
            except TimeoutError:
                raise ClientTooSlow from None

        try:
            async with contextlib.aclosing(self._frames):
                await super().__call__(scope, receive, send_in_time)
        except ClientTooSlow:
            self._feed.dropped += 1
            logger.info("stream client dropped: too slow")
        finally:
            self._feed.leave(self._subscription)


async def _until_unavailable(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """End the stream if the database becomes unavailable: the client reconnects and continues."""
    try:
        async for chunk in chunks:
            yield chunk
    except UNAVAILABLE as error:
        logger.warning("cannot read a stream's backlog", extra={"error": type(error).__name__})
