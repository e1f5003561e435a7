"""Sends a client its frames, and drops one that takes none. Starlette notices a client that has
gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from regente.api.stream.feed import AWAY, Feed
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
        self._frames = _until_away(subscription.chunks(ring))
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
            logger.info("a stream's reader is too slow: dropped")
        finally:
            self._feed.leave(self._subscription)


async def _until_away(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Ends the stream when the database is away while a client reads its backlog: the client
    connects again and continues from there."""
    try:
        async for chunk in chunks:
            yield chunk
    except AWAY as error:
        logger.warning("a stream cannot read what it missed", extra={"error": type(error).__name__})
