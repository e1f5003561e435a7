"""The ring buffer of the latest events: what it keeps, and what it returns."""

from __future__ import annotations

from regente.api.stream.feed_event import FeedEvent, FeedFilter
from regente.api.stream.position import Position
from regente.api.stream.ring_buffer import MAX_CHUNKS, RingBuffer

ALL = FeedFilter()


def entries(
    first: int, last: int, *, size: int = 10, pipeline: str | None = None
) -> list[FeedEvent]:
    return [
        FeedEvent(Position(1, n), b"%09d|" % n * (size // 10), None, None, pipeline)
        for n in range(first, last + 1)
    ]


def test_it_keeps_the_latest_without_a_gap() -> None:
    """I10, I11: bounded by number, complete within its range."""
    ring = RingBuffer(Position(0, 0), 100)
    for start in range(1, 1001, 10):
        ring.add(entries(start, start + 9))
        assert len(ring) <= 125
        first = ring.start.id
        text, place = ring.after(ring.start, ALL, 10**6)
        assert text == b"".join(b"%09d|" % n for n in range(first + 1, ring.head.id + 1))
        assert place == ring.head
    assert not ring.covers(Position(1, 1))


def test_it_is_bounded_by_bytes_as_well() -> None:
    """I10: large events do not make it large."""
    ring = RingBuffer(Position(0, 0), 10_000, most_bytes=100_000)
    for start in range(1, 500):
        ring.add(entries(start, start, size=5000))
    assert len(ring) <= 25
    assert ring.head == Position(1, 499)


def test_a_chunk_ends_at_a_whole_event_and_is_made_once_for_all() -> None:
    """I10: clients at one position share the same bytes; few chunks are shared."""
    ring = RingBuffer(Position(0, 0), 1000)
    ring.add(entries(1, 500))
    text, place = ring.after(Position(0, 0), ALL, 25)
    assert (text, place) == (b"000000001|000000002|", Position(1, 2))
    assert ring.after(Position(0, 0), ALL, 25)[0] is text
    for n in range(300):
        ring.after(Position(1, n), ALL, 25)
    assert len(ring._chunks) <= MAX_CHUNKS


def test_a_filter_skips_events_that_do_not_match() -> None:
    """I11: and never skips a matching one."""
    ring = RingBuffer(Position(0, 0), 1000)
    ring.add(entries(1, 10, pipeline="a") + entries(11, 20, pipeline="b"))
    assert ring.after(Position(0, 0), FeedFilter(pipeline="c"), 100) == (b"", Position(1, 20))
    text, place = ring.after(Position(0, 0), FeedFilter(pipeline="b"), 25)
    assert (text, place) == (b"000000011|000000012|", Position(1, 12))
