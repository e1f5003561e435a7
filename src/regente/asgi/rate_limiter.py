"""Rates: so many requests at once, and so many more every second, for each
key, client or address."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

MAX_REMEMBERED = 10_000


@dataclass(slots=True)
class _TokenBucket:
    left: float
    seen: float


class RateLimiter:
    """One bucket per name; of too many names the ones unused for longest are forgotten."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str, _TokenBucket] = OrderedDict()

    def take(self, name: str) -> float:
        """0: go ahead. Else: so many seconds to wait."""
        bucket = self._refilled(name)
        if bucket.left < 1:
            return (1 - bucket.left) / self._per_second
        bucket.left -= 1
        return 0.0

    def _refilled(self, name: str) -> _TokenBucket:
        now = time.monotonic()
        bucket = self._buckets.setdefault(name, _TokenBucket(float(self._burst), now))
        bucket.left = min(self._burst, bucket.left + (now - bucket.seen) * self._per_second)
        bucket.seen = now
        self._buckets.move_to_end(name)
        if len(self._buckets) > MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        return bucket
