"""Tells runners of new tasks with NOTIFY, after the commit that made them visible.

A transaction that sends a NOTIFY holds a lock of the whole server until its commit is on disk: with
it, the transactions that store tasks would commit one at a time. So hints have transactions of
their own, which write nothing and wait for no disk; a process sends one at a time and merges those
that meet. A hint may get lost: runners poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from regente.engine import log
from regente.engine.cancellation import cancel_all
from regente.engine.database import FOREVER, Database, fetch_on, number_array, text_array
from regente.engine.lanes import LaneQueue, look_at_lanes

BURST = 20
EVERY_SECONDS = 0.01
FIRST_LOOK_SECONDS = 0.001
MAX_LOOK_SECONDS = 0.25
GIVE_UP_SECONDS = 60.0  # a transaction that lasts longer needs no hint: a poll finds its tasks
LAST_HINTS_SECONDS = 2.0
LANES_AT_ONCE = 1000

# The levels with new tasks, by pipeline and priority: the earliest `run_at` of each, in seconds
# since 1970.
Levels = dict[tuple[str, int], float]


@dataclass(slots=True)
class NewlyDue:
    """Where new tasks are due: the levels, and the queues of lanes."""

    levels: Levels = field(default_factory=dict)
    queues: set[LaneQueue] = field(default_factory=set)

    def add(self, pipeline: str, priority: int, run_at: float | None, lane: str | None) -> None:
        """A task with this `run_at`, None for a draft."""
        if run_at is None:
            return
        if lane is not None:
            self.queues.add((lane, pipeline))
            return
        level = (pipeline, priority)
        self.levels[level] = min(run_at, self.levels.get(level, FOREVER))

    def merge(self, more: NewlyDue) -> None:
        for (pipeline, priority), first in more.levels.items():
            self.add(pipeline, priority, first, None)
        self.queues |= more.queues

    def __bool__(self) -> bool:
        return bool(self.levels or self.queues)


def new_tasks(stored: Iterable[tuple[str, int, float | None, str | None]]) -> NewlyDue:
    """Where tasks with this pipeline, priority, `run_at` and lane are due."""
    new = NewlyDue()
    for pipeline, priority, run_at, lane in stored:
        new.add(pipeline, priority, run_at, lane)
    return new


class Budget:
    """Limits the hints of a process to a burst, then one every 10 ms: each wakes every runner."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._counted_at = time.monotonic()

    def take(self) -> float:
        """Take one, or return how many seconds to wait before the next try."""
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._counted_at) / EVERY_SECONDS)
        self._counted_at = now
        if self._left < 1:
            return (1 - self._left) * EVERY_SECONDS
        self._left -= 1
        return 0.0


@dataclass(slots=True)
class OpenTransaction:
    """A transaction of a caller, whose hints are due when it has committed."""

    xid: str
    new: NewlyDue
    since: float
    look_at: float

    def look_later(self, now: float) -> None:
        """A transaction that has been open for long is looked at rarely."""
        age_seconds = now - self.since
        self.look_at = now + min(max(age_seconds / 2, FIRST_LOOK_SECONDS), MAX_LOOK_SECONDS)


class Hints:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._due = NewlyDue()
        self._open: dict[str, OpenTransaction] = {}
        self._wake = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._budget = Budget()

    def start(self) -> None:
        self._sender = asyncio.create_task(self._run(), name="hints")

    async def stop(self) -> None:
        """Send what is due, then end."""
        if self._sender is not None:
            await cancel_all([self._sender])
        for transaction in self._open.values():
            transaction.look_at = 0.0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_HINTS_SECONDS):
                await self._send()

    def may_send(self) -> bool:
        """Whether the caller may send a hint by itself, as part of its own round trip."""
        return not self._due and not self._budget.take()

    def send(self, new: NewlyDue) -> None:
        """Send hints now: the tasks are committed."""
        self._due.merge(new)
        self._wake.set()

    def send_after(self, xid: str, new: NewlyDue) -> None:
        """Send hints once the caller's transaction has committed, which only the server knows."""
        now = time.monotonic()
        found = self._open.setdefault(
            xid, OpenTransaction(xid, NewlyDue(), now, now + FIRST_LOOK_SECONDS)
        )
        found.new.merge(new)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._until_due()
            while wait_seconds := self._budget.take():
                await asyncio.sleep(wait_seconds)
            await self._send()

    async def _until_due(self) -> None:
        while not self._due:
            self._wake.clear()
            looks = [one.look_at for one in self._open.values()]
            wait_seconds = min(looks) - time.monotonic() if looks else None
            if wait_seconds is not None and wait_seconds <= 0:
                return
            # Not `wait_for`: in Python 3.11 it swallows a cancellation that meets the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._wake.wait()

    async def _send(self) -> None:
        due, self._due = self._due, NewlyDue()
        now = time.monotonic()
        looked_at = [one for one in self._open.values() if one.look_at <= now]
        try:
            ended = await self._notify(
                [(None, due.levels), *((one.xid, one.new.levels) for one in looked_at)]
            )
            ended |= await self._look_at_lanes(due, [one for one in looked_at if one.new.queues])
        except asyncio.CancelledError:
            self.send(due)
            raise
        except Exception as error:
            log.hints_lost(error)
            ended = {one.xid for one in looked_at}
        for one in looked_at:
            if one.xid in ended or now - one.since > GIVE_UP_SECONDS:
                del self._open[one.xid]
            else:
                one.look_later(now)

    async def _look_at_lanes(self, due: NewlyDue, looked_at: list[OpenTransaction]) -> set[str]:
        """Open the lanes of committed tasks and make them ready; returns the transactions that have
        ended."""
        if not due.queues and not looked_at:
            return set()
        queues = set(due.queues)
        async with self._database.connection() as connection:

            async def fetch(name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
                return await fetch_on(connection, name, params)

            xids = {"xids": text_array([one.xid for one in looked_at])}
            ended = {row[0] for row in await fetch("ended_transactions", xids)}
            for one in looked_at:
                if one.xid in ended:
                    queues |= one.new.queues
            every = sorted(queues)
            for start in range(0, len(every), LANES_AT_ONCE):
                await look_at_lanes(fetch, every[start : start + LANES_AT_ONCE])
        return ended

    async def _notify(self, committed: Iterable[tuple[str | None, Levels]]) -> set[str]:
        """Send hints, those of open transactions only after their commit; returns the transactions
        that have ended."""
        hints = [(xid, *level, first) for xid, one in committed for level, first in one.items()]
        if not hints:
            return set()
        xids, pipelines, priorities, firsts = zip(*hints, strict=True)
        params = {
            "xids": text_array(xids),
            "pipelines": text_array(pipelines),
            "priorities": number_array(priorities),
            "firsts": number_array(firsts),
        }
        async with self._database.connection() as connection:
            return {row[0] for row in await fetch_on(connection, "send_hints", params)}
