"""Writes for tasks whose rows another session has locked, for example by `FOR UPDATE` in psql:
set aside, and each written soon after its row is free.

Nothing else waits for them. They are tried together by a statement that steps over locked rows,
in the background, until they are written or the time to write is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from regente.engine.errors import DatabaseUnavailable, RowLocked

Item = TypeVar("Item")
Verdict = TypeVar("Verdict")

PROBE_SECONDS = 10.0  # how long writes step over locked rows after one was found
FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 0.5
AT_ONCE = 500


def waits_for_a_lock() -> Iterator[float]:
    """The seconds between looks at a row that another session has locked."""
    wait_seconds = FIRST_WAIT_SECONDS
    while True:
        yield wait_seconds
        wait_seconds = min(wait_seconds * 2, LONGEST_WAIT_SECONDS)


class Entry(NamedTuple, Generic[Item, Verdict]):
    item: Item
    done: Callable[[Item, Verdict], None]
    failed: Callable[[Item, BaseException], None]


@dataclass
class LockedTasks:
    """Tasks whose rows other sessions have locked, with the number of writes that wait for each.

    Kinds of writes share it: when one finds a locked task, the others set theirs aside at once, and
    no statement waits for the next one that may be locked.
    """

    writes: Counter[int] = field(default_factory=Counter)
    probe_until: float = 0.0

    @property
    def are_likely(self) -> bool:
        return time.monotonic() < self.probe_until


class LockedRows(Generic[Item, Verdict]):
    """`write_free` writes the items whose rows are free, and gives None for each of the others."""

    def __init__(
        self,
        write_free: Callable[[Sequence[Item]], Awaitable[Sequence[Verdict | None]]],
        task_of: Callable[[Item], int],
        locked: LockedTasks,
        give_up_at: Callable[[], float],
    ) -> None:
        self._write_free = write_free
        self._task_of = task_of
        self._locked = locked
        self._give_up_at = give_up_at
        self._aside: list[Entry[Item, Verdict]] = []
        self._runner: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def are_likely(self) -> bool:
        """True when a statement that waits for locked rows might wait in vain."""
        return self._locked.are_likely

    @property
    def time_is_over(self) -> bool:
        return time.monotonic() > self._give_up_at()

    def concerns(self, item: Item) -> bool:
        """True when another write for the same task is set aside."""
        return bool(self._locked.writes) and self._task_of(item) in self._locked.writes

    def set_aside(self, entries: Sequence[Entry[Item, Verdict]]) -> None:
        """Write the entries in the background."""
        self._locked.writes.update(self._task_of(entry.item) for entry in entries)
        self._aside += entries
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run(), name="locked rows")

    async def write(self, entries: list[Entry[Item, Verdict]]) -> None:
        """Write the entries whose rows are free now, and set the others aside."""
        still_locked = await self._try(entries)
        if still_locked:
            self._locked.probe_until = time.monotonic() + PROBE_SECONDS
            self.set_aside(still_locked)

    async def stop(self) -> None:
        """Give up what is still locked."""
        self._stopping.set()
        if self._runner is not None:
            await self._runner
        self._stopping.clear()

    async def _run(self) -> None:
        waits = waits_for_a_lock()
        while self._aside:
            await self._pause(next(waits))
            batch, self._aside = self._aside[:AT_ONCE], self._aside[AT_ONCE:]
            if self._stopping.is_set() or self.time_is_over:
                still_locked = _give_up(batch)
            else:
                still_locked = await self._try(batch)
            self._locked.writes.subtract(self._task_of(entry.item) for entry in batch)
            self._locked.writes.update(self._task_of(entry.item) for entry in still_locked)
            self._locked.writes += Counter()  # drops the tasks with a count of 0
            self._aside += still_locked
            if len(still_locked) < len(batch):
                waits = waits_for_a_lock()

    async def _pause(self, seconds: float) -> None:
        # Not `wait_for`: in Python 3.11 it swallows a cancellation that meets the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _try(self, entries: list[Entry[Item, Verdict]]) -> list[Entry[Item, Verdict]]:
        """Write what can be written now; the entries whose rows are locked."""
        try:
            verdicts = await self._write_free([entry.item for entry in entries])
        except RowLocked:  # the whole table, for example
            return entries
        except Exception as error:
            if len(entries) > 1 and not isinstance(error, DatabaseUnavailable):
                alone = [await self._try([entry]) for entry in entries]
                return [entry for found in alone for entry in found]
            for entry in entries:
                entry.failed(entry.item, error)
            return []
        still_locked = []
        for entry, verdict in zip(entries, verdicts, strict=True):
            if verdict is None:
                still_locked.append(entry)
            else:
                entry.done(entry.item, verdict)
        return still_locked


def _give_up(entries: Sequence[Entry[Item, Verdict]]) -> list[Entry[Item, Verdict]]:
    for entry in entries:
        entry.failed(entry.item, RowLocked("another session holds a lock on the task's row"))
    return []
