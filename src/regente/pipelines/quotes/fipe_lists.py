"""Keeps the FIPE table's lists for a limited time: they change once a month, and each vehicle of a
lot asks for the same brands."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_LISTS = 2000


class ListCache(Generic[T]):
    """Lists by URL, none older than `seconds`; callers of one URL share one request."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Sequence[T]]] = OrderedDict()
        self._fetching: dict[str, asyncio.Lock] = {}

    async def get(self, url: str, fetch: Callable[[str], Awaitable[Sequence[T]]]) -> Sequence[T]:
        lock = self._fetching.setdefault(url, asyncio.Lock())
        try:
            async with lock:
                known = self._kept.get(url)
                if known is not None and self._clock() - known[0] < self._seconds:
                    return known[1]
                found = await fetch(url)
                self._kept[url] = (self._clock(), found)
                self._kept.move_to_end(url)
                while len(self._kept) > MAX_LISTS:
                    self._kept.popitem(last=False)
                return found
        finally:
            if not lock.locked():
                self._fetching.pop(url, None)

    def forget(self, *, older_than: float) -> bool:
        """Forget the lists that are older than so many seconds; whether there were any."""
        now = self._clock()
        old = [url for url, (at, _) in self._kept.items() if now - at > older_than]
        for url in old:
            del self._kept[url]
        return bool(old)
