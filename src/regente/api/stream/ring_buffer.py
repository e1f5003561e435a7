"""The latest events of the feed: all after `start` up to `head`; new events replace the oldest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from regente.api.stream.feed_event import FeedEvent, FeedFilter
from regente.api.stream.position import Position

MAX_CHUNKS = 8


class RingBuffer:
    def __init__(self, start: Position, most: int, most_bytes: int = 2**25) -> None:
        self.start = start
        self.head = start
        self.timeline = start.timeline
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: list[FeedEvent] = []
        # Chunks for clients without a filter, until the next event.
        self._chunks: dict[Position, tuple[bytes, Position]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entries: Sequence[FeedEvent]) -> None:
        self._entries.extend(entries)
        self._chunks.clear()
        self.head = entries[-1].position
        self._bytes += sum(len(entry.frame) for entry in entries)
        # Removed in large pieces: each removal moves all events that stay.
        if (
            len(self._entries) > self._most + self._most // 4
            or self._bytes > self._most_bytes + self._most_bytes // 4
        ):
            self._cut_back()

    def _cut_back(self) -> None:
        gone = 0
        while len(self._entries) - gone > self._most or self._bytes > self._most_bytes:
            self._bytes -= len(self._entries[gone].frame)
            gone += 1
        self.start = self._entries[gone - 1].position
        del self._entries[:gone]

    def covers(self, position: Position) -> bool:
        return position.timeline == self.timeline and self.start <= position <= self.head

    def after(
        self, position: Position, wanted: FeedFilter, most_bytes: int
    ) -> tuple[bytes, Position]:
        """The next whole frames, up to `most_bytes`, and the position after them."""
        if not wanted.takes_all:
            return self._chunk(position, wanted, most_bytes)
        if position not in self._chunks:
            if len(self._chunks) >= MAX_CHUNKS:
                self._chunks.clear()
            self._chunks[position] = self._chunk(position, wanted, most_bytes)
        return self._chunks[position]

    def _chunk(
        self, position: Position, wanted: FeedFilter, most_bytes: int
    ) -> tuple[bytes, Position]:
        frames: list[bytes] = []
        size = 0
        for index in range(
            bisect_right(self._entries, position, key=_position), len(self._entries)
        ):
            entry = self._entries[index]
            if wanted.takes(entry):
                if frames and size + len(entry.frame) > most_bytes:
                    return b"".join(frames), position
                frames.append(entry.frame)
                size += len(entry.frame)
            position = entry.position
        return b"".join(frames), position


def _position(entry: FeedEvent) -> Position:
    return entry.position
