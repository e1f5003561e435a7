"""Writes what many coroutines hand in with few statements, without a delay to collect more.

Items that are handed in while one statement is under way go out with the next. A caller continues
only when its own item is committed: durability is not traded for speed.

An item whose row another session has locked is set aside (`locked_rows.py`): it delays no other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from regente.engine.errors import DatabaseUnavailable, RowLocked
from regente.engine.locked_rows import Entry, LockedRows

Item = TypeVar("Item")
Verdict = TypeVar("Verdict")

MAX_BATCH_BYTES = 32 * 1024 * 1024


class Coalescer(Generic[Item, Verdict]):
    """`flush` writes a batch and gives a verdict for each item, in order: an id, or whether the
    fence let it pass. When it raises `RowLocked`, `locked_rows` takes the batch over."""

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Verdict]]],
        *,
        max_batch: int,
        bytes_of: Callable[[Item], int],
        locked_rows: LockedRows[Item, Verdict] | None = None,
    ) -> None:
        self._flush = flush
        self._locked_rows = locked_rows
        self._max_batch = max_batch
        self._bytes_of = bytes_of
        self._waiting: list[Entry[Item, Verdict]] = []
        self._wake = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._flushing = False

    def start(self) -> None:
        self._runner = asyncio.create_task(self._run(), name="coalescer")

    async def stop(self) -> None:
        """Return when everything that was handed in is written. What another session has locked
        fails, and all the rest when the time to write is over."""
        while (self._waiting or self._flushing) and not self._time_is_over():
            await asyncio.sleep(0.001)
        if self._runner is not None:
            self._runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner
        _fail(self._waiting)
        self._waiting = []
        if self._locked_rows is not None:
            await self._locked_rows.stop()

    def _time_is_over(self) -> bool:
        return self._locked_rows is not None and self._locked_rows.time_is_over

    def hand_in(
        self,
        item: Item,
        done: Callable[[Item, Verdict], None],
        failed: Callable[[Item, BaseException], None],
    ) -> None:
        """Write the item, then call `done` with it and its verdict."""
        entry = Entry(item, done, failed)
        if self._locked_rows is not None and self._locked_rows.concerns(item):
            self._locked_rows.set_aside([entry])
            return
        self._waiting.append(entry)
        self._wake.set()

    async def write(self, item: Item) -> Verdict:
        """Write the item and wait for its commit."""
        return await self.begin(item)

    def begin(self, item: Item) -> asyncio.Future[Verdict]:
        """Write the item; the future is done when it is committed."""
        written: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self.hand_in(
            item,
            lambda _, verdict: None if written.done() else written.set_result(verdict),
            lambda _, error: None if written.done() else written.set_exception(error),
        )
        return written

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch = self._next_batch()
                self._flushing = True
                try:
                    await self._write_out(batch)
                except asyncio.CancelledError:  # the time to write is over
                    _fail(batch)
                    raise
                finally:
                    self._flushing = False

    def _next_batch(self) -> list[Entry[Item, Verdict]]:
        count = size_bytes = 0
        for entry in self._waiting[: self._max_batch]:
            size_bytes += self._bytes_of(entry.item)
            if count and size_bytes > MAX_BATCH_BYTES:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _write_out(self, batch: list[Entry[Item, Verdict]]) -> None:
        if self._locked_rows is not None and self._locked_rows.are_likely:
            await self._locked_rows.write(batch)
            return
        try:
            verdicts = await self._flush([entry.item for entry in batch])
        except Exception as error:
            # One item was refused for its content and nothing is committed, so each may be sent
            # alone. When the database is away, the outcome is unknown.
            if isinstance(error, RowLocked) and self._locked_rows is not None:
                await self._locked_rows.write(batch)
            elif len(batch) > 1 and not isinstance(error, DatabaseUnavailable):
                for entry in batch:
                    await self._write_out([entry])
            else:
                for entry in batch:
                    entry.failed(entry.item, error)
        else:
            for entry, verdict in zip(batch, verdicts, strict=True):
                entry.done(entry.item, verdict)


def _fail(entries: Sequence[Entry[Item, Verdict]]) -> None:
    for entry in entries:
        entry.failed(entry.item, DatabaseUnavailable("not written before the runner had to stop"))
