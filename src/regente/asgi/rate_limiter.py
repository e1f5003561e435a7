"""Rate limits by token bucket, one per key, client or address."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

MAX_BUCKETS = 10_000


@dataclass(slots=True)
class _TokenBucket:
    tokens: float
    refilled_at: float


class RateLimiter:
    """One bucket per name; beyond MAX_BUCKETS the longest unused are dropped."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str, _TokenBucket] = OrderedDict()

    def take(self, name: str) -> float:
        """Take a token. Returns 0 if there was one, else the seconds until the next."""
        bucket = self._refilled(name)
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._per_second
        bucket.tokens -= 1
        return 0.0

    def _refilled(self, name: str) -> _TokenBucket:
        now = time.monotonic()
        bucket = self._buckets.setdefault(name, _TokenBucket(float(self._burst), now))
        bucket.tokens = min(
            self._burst, bucket.tokens + (now - bucket.refilled_at) * self._per_second
        )
        bucket.refilled_at = now
        self._buckets.move_to_end(name)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket
