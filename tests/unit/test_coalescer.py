"""Many writers, few statements: each caller gets its own row's result when it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import psycopg
import pytest

from regente import DatabaseUnavailable
from regente.engine import coalescer as module
from regente.engine.coalescer import Coalescer


class Writer:
    """Records what it is given; stops where the test wants it to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.errors: dict[int, Exception] = {}
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def flush(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        self.asked.set()
        await self.gate.wait()
        for item in items:
            if item in self.errors:
                raise self.errors[item]
        return [item * 10 for item in items]


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
async def coalescer(writer: Writer) -> AsyncIterator[Coalescer[int, int]]:
    made: Coalescer[int, int] = Coalescer(writer.flush, max_batch=4, bytes_of=lambda item: item)
    made.start()
    yield made
    await made.stop()


async def test_items_that_arrive_during_a_statement_go_into_the_next(
    coalescer: Coalescer[int, int], writer: Writer
) -> None:
    """I1: no caller waits for a fuller batch, and each gets its own result."""
    writer.gate.clear()
    first = asyncio.create_task(coalescer.write(0))
    await writer.asked.wait()
    rest = [asyncio.create_task(coalescer.write(n)) for n in range(1, 8)]
    await asyncio.sleep(0)
    assert writer.batches == [[0]]
    writer.gate.set()
    assert await asyncio.gather(first, *rest) == [n * 10 for n in range(8)]
    assert writer.batches == [[0], [1, 2, 3, 4], [5, 6, 7]]


@pytest.mark.parametrize(
    "error",
    [psycopg.DataError("bad"), TypeError("bad"), UnicodeEncodeError("utf-8", "x", 0, 1, "bad")],
)
async def test_one_bad_item_fails_alone(
    coalescer: Coalescer[int, int], writer: Writer, error: Exception
) -> None:
    """F15: a row that cannot be sent, for any reason, does not affect its neighbours."""
    writer.errors[2] = error
    answers = await asyncio.gather(*(coalescer.write(n) for n in range(4)), return_exceptions=True)
    assert answers == [0, 10, error, 30]


async def test_while_the_database_is_away_nothing_is_sent_twice(
    coalescer: Coalescer[int, int], writer: Writer
) -> None:
    """I1: an unknown outcome is reported to every caller."""
    writer.errors[2] = DatabaseUnavailable("away")
    answers = await asyncio.gather(*(coalescer.write(n) for n in range(4)), return_exceptions=True)
    assert all(isinstance(answer, DatabaseUnavailable) for answer in answers)
    assert writer.batches == [[0, 1, 2, 3]]


async def test_a_batch_is_bounded_in_bytes(
    coalescer: Coalescer[int, int], writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Z4: large items go out in small batches, the largest alone."""
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 100)
    await asyncio.gather(*(coalescer.write(n) for n in (60, 30, 20, 500, 1)))
    assert writer.batches == [[60, 30], [20], [500], [1]]


async def test_stopping_waits_for_what_was_handed_in(writer: Writer) -> None:
    """I1: items are flushed before the close."""
    made: Coalescer[int, int] = Coalescer(writer.flush, max_batch=2, bytes_of=lambda _: 0)
    made.start()
    done: list[int] = []
    for n in range(5):
        made.hand_in(n, lambda item, _: done.append(item), lambda item, _: None)
    await made.stop()
    assert done == [0, 1, 2, 3, 4]


async def test_a_caller_that_went_away_does_no_harm(
    coalescer: Coalescer[int, int], writer: Writer
) -> None:
    """I8: its row is written, and the other callers continue."""
    writer.gate.clear()
    cancelled = asyncio.create_task(coalescer.write(1))
    await writer.asked.wait()
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    writer.gate.set()
    assert await coalescer.write(2) == 20
