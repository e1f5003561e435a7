"""Tells callers of `Client.wait` when their tasks have ended: one query for all that wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict

from regente.engine.database import ReadsRows, number_array

SHORTEST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.5


class Endings:
    def __init__(self, reads: ReadsRows) -> None:
        self._reads = reads
        self._waiting: defaultdict[int, list[asyncio.Future[None]]] = defaultdict(list)
        self._looking: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def ended(self, task_id: int) -> None:
        """Return when the task has ended, or is gone."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[task_id].append(future)
        self._news.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            await future
        finally:
            self._waiting[task_id].remove(future)
            if not self._waiting[task_id]:
                del self._waiting[task_id]

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    async def _look(self) -> None:
        """Look ever more rarely, and often again for each new caller, until none waits."""
        pause_seconds = SHORTEST_PAUSE_SECONDS
        while self._waiting:
            if self._news.is_set():
                self._news.clear()
                pause_seconds = SHORTEST_PAUSE_SECONDS
            try:
                params = {"ids": number_array(sorted(self._waiting))}
                ended = await self._reads.fetch_dicts("ended_tasks", params)
            except Exception as error:
                for future in [one for waiting in self._waiting.values() for one in waiting]:
                    future.set_exception(error)
                return
            for row in ended:
                for future in self._waiting.get(row["id"], []):
                    if not future.done():
                        future.set_result(None)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), pause_seconds)
            pause_seconds = min(pause_seconds * 1.5, LONGEST_PAUSE_SECONDS)
