"""One client of the feed: missed events from the database, then live ones from the ring buffer.

It has no queue, only a position: a slow client takes no more memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from regente.api.access.principal import Principal
from regente.api.stream.feed_event import FeedFilter, frame
from regente.api.stream.position import BEGINNING, Position
from regente.api.stream.ring_buffer import RingBuffer

if TYPE_CHECKING:
    from regente.api.stream.feed import Feed

STALE_SECONDS = 5.0


class Subscription:
    def __init__(
        self,
        feed: Feed,
        wanted: FeedFilter,
        after: Position | None,
        who: Principal,
        seconds: float | None = None,
    ) -> None:
        self.account_id = who.account_id
        self.session_id = who.session_id
        self.role = who.role
        self.news = asyncio.Event()
        self.ended = False
        self._feed = feed
        self._wanted = wanted
        self._after = after
        self._position = after or BEGINNING
        most = (
            feed.config.session_lifetime_seconds
            if who.via == "session"
            else feed.config.lifetime_seconds
        )
        self._ends_at = time.monotonic() + min(seconds or most, most)
        self._beats_at = 0.0

    def end(self) -> None:
        self.ended = True
        self.news.set()

    async def chunks(self, ring: RingBuffer) -> AsyncIterator[bytes]:
        """The frames, until the stream's lifetime ends or the client is too far behind."""
        yield b"retry: %d\n\n" % (self._feed.config.retry_seconds * 1000)
        async for chunk in self._backlog(ring):
            yield chunk
        while self._continues(ring):
            self.news.clear()
            chunk, self._position = ring.after(
                self._position, self._wanted, self._feed.config.chunk_bytes
            )
            if chunk:
                yield chunk
            if time.monotonic() >= self._beats_at:
                yield self._heartbeat()
            if self._position >= ring.head:
                await self._wait()

    async def _backlog(self, ring: RingBuffer) -> AsyncIterator[bytes]:
        """The missed events, up to a position that the ring buffer covers."""
        if self._after is None:
            self._position = ring.head
        elif not ring.covers(self._position) and (
            why := (await self._feed.source.bounds()).why_not(self._position)
        ):
            self._position = ring.head
            yield self._resync(why)
        self._position = self._position._replace(timeline=ring.timeline)
        yield self._heartbeat()
        while self._position < ring.start and not self.ended:
            async with self._feed.backlogs:
                page = await self._feed.source.page(self._position, self._feed.config.page_events)
            if page.timeline != self._position.timeline:
                self.end()
            entries = page.events
            if not entries or self.ended:
                break
            self._position = entries[-1].position
            if chunk := b"".join(entry.frame for entry in entries if self._wanted.takes(entry)):
                yield chunk
            if time.monotonic() >= self._beats_at:
                yield self._heartbeat()

    def _continues(self, ring: RingBuffer) -> bool:
        if self.ended or time.monotonic() >= self._ends_at:
            return False
        if self._position < ring.start:
            self._feed.dropped += 1
            return False
        return True

    async def _wait(self) -> None:
        until = min(self._beats_at, self._ends_at)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await self.news.wait()

    def _heartbeat(self) -> bytes:
        self._beats_at = time.monotonic() + self._feed.config.heartbeat_seconds
        live = self._feed.silent_seconds < STALE_SECONDS
        return self._named(
            "heartbeat", {"at": datetime.now(UTC), "state": "live" if live else "stale"}
        )

    def _resync(self, reason: str) -> bytes:
        return self._named("resync", {"reason": reason, "position": str(self._position)})

    def _named(self, name: str, data: dict[str, Any]) -> bytes:
        return frame(data, self._position, name)
