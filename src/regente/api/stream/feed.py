"""The process's reader of the feed: reads while there are clients, keeps the latest events, wakes
the clients.

It polls: often while events come, every half second when none do, never without clients. The
engine's NOTIFY for queued tasks makes it poll at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time

import psycopg
from psycopg_pool import PoolTimeout

from regente.api.errors import RateLimited
from regente.api.stream.config import StreamConfig
from regente.api.stream.reader import FeedReader
from regente.api.stream.ring_buffer import RingBuffer
from regente.api.stream.subscription import Subscription
from regente.engine.cancellation import cancel_all
from regente.engine.database import Database
from regente.engine.errors import DatabaseUnavailable
from regente.engine.listener import Listener

logger = logging.getLogger("regente.api")

UNAVAILABLE = (psycopg.Error, PoolTimeout, DatabaseUnavailable, OSError)
READY_SECONDS = 15.0
OPEN = "open"
"""The key id of every client when authentication is off."""


class Feed:
    def __init__(
        self,
        database: Database,
        config: StreamConfig | None = None,
        session_idle_seconds: float = math.inf,
    ) -> None:
        self.config = config or StreamConfig()
        self._idle_seconds = session_idle_seconds
        self.source = FeedReader(database, self.config.details_bytes)
        self.backlogs = asyncio.Semaphore(self.config.backlogs)
        self.ring: RingBuffer | None = None
        self.read_at = 0.0
        self.dropped = 0
        self.published = 0
        self.reads = 0
        self._subscriptions: set[Subscription] = set()
        self._database = database
        self._pause_seconds = self.config.busy_seconds
        self._hint = asyncio.Event()
        self._ready = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._idle_since = 0.0
        self._closed = False

    @property
    def clients(self) -> int:
        return len(self._subscriptions)

    @property
    def silent_seconds(self) -> float:
        """Seconds since the feed was last read."""
        return time.monotonic() - self.read_at

    async def admit(self, subscription: Subscription) -> RingBuffer:
        """Add the client, to be woken by every event until it leaves. Returns the ring buffer."""
        self._check_room(subscription.account_id)
        self._subscriptions.add(subscription)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_while_wanted(), name="feed")
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READY_SECONDS):
                    await self._ready.wait()
            if self.ring is None:
                raise DatabaseUnavailable("the feed cannot be read: the database is unavailable")
        except BaseException:
            self.leave(subscription)
            raise
        return self.ring

    def _check_room(self, account_id: str) -> None:
        open_now = sum(1 for one in self._subscriptions if one.account_id == account_id)
        if self._closed or len(self._subscriptions) >= self.config.max_clients:
            problem = "too many streams are open here"
        elif open_now >= self.config.max_clients_per_key:
            problem = f"this key has {open_now} open streams, which is the limit"
        else:
            return
        raise RateLimited(problem, retry_after_seconds=self.config.retry_seconds)

    def leave(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        self._idle_since = time.monotonic()

    async def close(self) -> None:
        """End every stream: the clients reconnect, to another process or after a restart."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.end()
        if self._reader is not None:
            await cancel_all([self._reader])

    async def _read_while_wanted(self) -> None:
        listener = Listener(self._database, lambda channel, payload: self._hint.set())
        listener.start()
        checks = asyncio.create_task(self._check_regularly(), name="stream checks")
        try:
            while (
                self._subscriptions
                or time.monotonic() - self._idle_since < self.config.linger_seconds
            ):
                await self._poll()
        except Exception:  # the streams end below
            logger.exception("the feed's reader failed")
        finally:
            self._reader, self.ring = None, None
            self._ready.clear()
            for subscription in self._subscriptions:
                subscription.end()
            await cancel_all([checks])
            await listener.stop()

    async def _poll(self) -> None:
        """Read a page of the feed; after the last one wait, longer while there are no events."""
        try:
            found = await self._read_page()
        except UNAVAILABLE as error:
            logger.warning("the feed cannot be read", extra={"error": type(error).__name__})
            await asyncio.sleep(self.config.idle_seconds)
            return
        if self.ring is None:
            return
        if found == self.config.page_events:
            await asyncio.sleep(0)
            return
        self._ready.set()
        self._pause_seconds = (
            self.config.busy_seconds
            if found
            else min(self._pause_seconds * 2, self.config.idle_seconds)
        )
        await self._wait(self._pause_seconds)

    async def _read_page(self) -> int:
        self.reads += 1
        if self.ring is None:
            start = await self.source.start(self.config.prefill_events)
            self.ring = RingBuffer(start, self.config.ring_events, self.config.ring_bytes)
        page = await self.source.page(self.ring.head, self.config.page_events)
        self.read_at = time.monotonic()
        if page.timeline != self.ring.timeline:
            self._start_over()
            return 0
        entries = page.events
        if entries:
            self.ring.add(entries)
            self.published += len(entries)
            for subscription in self._subscriptions:
                subscription.news.set()
        return len(entries)

    async def _wait(self, seconds: float) -> None:
        # Even after a hint the shortest pause is kept, so that small commits are read together.
        await asyncio.sleep(self.config.busy_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - self.config.busy_seconds):
                await self._hint.wait()
        self._hint.clear()

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(self.config.check_seconds)
            with contextlib.suppress(*UNAVAILABLE):
                await self.check()

    async def check(self) -> None:
        """End the streams of invalid keys, and of sessions that ended or got another role; all
        streams when the database was restored."""
        bounds = await self.source.bounds()
        if self.ring is not None and bounds.why_not(self.ring.head) == "unknown":
            self._start_over()
        sessions = await self.source.session_roles(
            {one.session_id for one in self._subscriptions if one.session_id},
            self._idle_seconds,
        )
        keys = await self.source.valid_keys(
            {one.account_id for one in self._subscriptions if one.session_id is None}
        )
        for one in self._subscriptions:
            if one.session_id is not None:
                goes_on = sessions.get(one.session_id) == one.role
            else:
                goes_on = one.account_id == OPEN or one.account_id in keys
            if not goes_on:
                one.end()

    def _start_over(self) -> None:
        """The database failed over or was restored: the clients reconnect and are told."""
        self.ring = None
        self._ready.clear()
        for subscription in self._subscriptions:
            subscription.end()
