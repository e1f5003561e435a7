"""Tells the drivers of a runner what other tasks did to their workers: one query a second for all
of them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from regente.engine.attempt_tasks import outside_attempts
from regente.engine.cancellation import cancel_all
from regente.engine.database import Database
from regente.pipelines.missions.queries import QUERIES
from regente.pipelines.missions.settings import DEFAULTS


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker's row, the state of its mission, and whether the orchestrator is open."""

    status: str
    mission_id: int | None
    active: bool
    session_count: int
    rest_seconds: float
    orphaned: bool  # assigned to a mission that has ended
    session_limit: int
    open: bool  # whether the orchestrator is


class WorkerWatch:
    def __init__(self, database: Database, watch_seconds: float) -> None:
        self._database = database
        self._watch_seconds = watch_seconds
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._seen: dict[str, WorkerState] = {}
        self._watching: asyncio.Task[None] | None = None

    async def wait(self, worker_id: str, seconds: float, *, for_work: bool = False) -> None:
        """Wait until this worker changes, the time is up, or, `for_work`, a mission waits."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), context=outside_attempts())
        key = f"{'w' if for_work else 's'}{worker_id}"
        future = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await future
        finally:
            if self._waiting.get(key) is future:
                del self._waiting[key]

    def changed(self, worker_id: str) -> None:
        """Wake the worker's driver at once after a change in this process."""
        self._wake(f"s{worker_id}")
        self._wake(f"w{worker_id}")

    async def state(self, worker_id: str) -> WorkerState | None:
        """The worker now; None when it was removed."""
        return (await self._states([worker_id])).get(worker_id)

    async def close(self) -> None:
        if self._watching is not None:
            await cancel_all([self._watching])

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._watch_seconds)
            if not self._waiting:
                continue
            try:
                await self._check()
            except Exception:  # the database is away: the drivers' own statements report it
                await asyncio.sleep(self._watch_seconds)

    async def _check(self) -> None:
        waiting = (await QUERIES.fetch_all(self._database, "waiting_missions"))[0]["waiting"]
        for_work = [key for key in self._waiting if key[0] == "w"]
        for key in for_work[:waiting]:
            self._wake(key)
        ids = {key[1:] for key in self._waiting}
        for worker_id, state in (await self._states(list(ids))).items():
            if self._seen.get(worker_id) != state:
                self._seen[worker_id] = state
                self.changed(worker_id)

    async def _states(self, ids: list[str]) -> dict[str, WorkerState]:
        return {
            row["id"]: WorkerState(
                row["status"],
                row["current_mission_id"],
                row["active"],
                row["session_count"],
                row["rest_seconds"] or 0.0,
                bool(row["orphaned"]),
                row["session_limit"],
                row["open"],
            )
            for row in await QUERIES.fetch_all(
                self._database, "worker_states", ids=ids, session_limit=DEFAULTS.session_limit
            )
        }

    def _wake(self, key: str) -> None:
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_result(None)
