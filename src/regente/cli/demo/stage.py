"""The demo's course: ready the runners, hand out the work, kill one runner, watch the rest, judge."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from datetime import datetime

from regente.app import Regente
from regente.cli.demo.fleet import LEASE_SECONDS, PIPELINE, DemoFailed, Fleet
from regente.cli.demo.screen import Screen
from regente.cli.demo.verdict import Verdict, judge
from regente.cli.output import plural
from regente.engine.models import BatchInfo
from regente.examples.prices import QUERIES, page_requests

READY_SECONDS = 60.0
STUCK_SECONDS = 120.0
POLL_SECONDS = 0.2
KILL_AT_SHARE = 0.2
# What the dead process had sent is still carried out by the server; then what it holds stays as it is until its lease ends.
SETTLE_SECONDS = 0.5
MAX_KILLS = 3


@dataclass(slots=True)
class Stage:
    app: Regente
    fleet: Fleet
    screen: Screen
    count: int
    name: str = field(default_factory=lambda: f"demo {datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {os.getpid()}")
    batch_id: int | None = None
    killed: list[int] = field(default_factory=list)
    held: int = 0

    async def play(self) -> Verdict:
        async with self.app.database.transaction() as connection:
            await connection.execute(QUERIES["create_sink"])
        await self._wait_for_runners()
        self.screen.say(f"{plural(len(self.fleet.pids), 'runner')} ready. Enqueuing {plural(self.count, 'task')}.")
        pages = page_requests(self.name, self.count)
        started_at = time.monotonic()
        self.batch_id = await self.app.open_batch(self.name)
        await self.app.enqueue_many(PIPELINE, pages, batch=self.batch_id)
        await self._watch()
        seconds = time.monotonic() - started_at
        batch = await self._closed_batch()
        return await judge(self.app, batch, pages, self.killed, self.held, seconds)

    async def abandon(self) -> None:
        """Interrupted: what is left must not be waiting for the next runner."""
        if self.batch_id is not None:
            await self.app.cancel_batch(self.batch_id)

    async def keep_alive(self) -> None:
        """Until the caller is canceled."""
        while True:
            await self._replace_fallen()
            await asyncio.sleep(1.0)

    async def _wait_for_runners(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while len(await self._own_runners()) < len(self.fleet.pids):
            await self._replace_fallen()
            if time.monotonic() > deadline:
                raise DemoFailed(f"the runners were not ready within {READY_SECONDS:.0f} s")
            await asyncio.sleep(POLL_SECONDS)

    async def _own_runners(self) -> dict[int, tuple[int, int]]:
        """Runner id and busy slots of our processes, by pid."""
        prefix = f"demo-{os.getpid()}-"
        alive = [one for one in await self.app.runners() if one.alive and one.name.startswith(prefix)]
        return {one.pid: (one.id, one.running) for one in alive if one.pid in self.fleet.pids}

    async def _watch(self) -> None:
        assert self.batch_id is not None
        moved_at, before = time.monotonic(), -1
        while True:
            batch = await self.app.batch(self.batch_id)
            self.screen.update(batch)
            left = batch.queued + batch.running + batch.draft
            if not left:
                return
            if left != before:
                moved_at, before = time.monotonic(), left
            elif time.monotonic() - moved_at > STUCK_SECONDS:
                raise DemoFailed(f"nothing has moved for {STUCK_SECONDS:.0f} s; {plural(left, 'task')} left")
            if not self.held and len(self.killed) < MAX_KILLS and batch.total - left >= batch.total * KILL_AT_SHARE:
                await self._kill_one()
            await self._replace_fallen()
            await asyncio.sleep(POLL_SECONDS)

    async def _kill_one(self) -> None:
        """The busiest one, without warning."""
        runners = await self._own_runners()
        pid, (runner_id, busy) = max(runners.items(), key=lambda item: item[1][1], default=(0, (0, 0)))
        if not busy:
            return
        number = self.fleet.number_of(pid)
        await self.fleet.kill(pid)
        self.killed.append(runner_id)
        replacement = await self.fleet.start_one()
        await asyncio.sleep(SETTLE_SECONDS)
        async with self.app.database.transaction() as connection:
            params = {"runner": runner_id, "batch_id": self.batch_id}
            row = await (await connection.execute(QUERIES["count_held"], params)).fetchone()
        self.held += row[0] if row else 0
        self.screen.say(
            f"Killed runner {number} (kill -9) with {plural(self.held, 'task')} in hand. Runner {replacement} replaces it; "
            f"the tasks come back when the lease has run out, after {LEASE_SECONDS} s."
        )

    async def _replace_fallen(self) -> None:
        for old, new in await self.fleet.replace_fallen():
            self.screen.say(f"Runner {old} ended on its own; runner {new} replaces it.")

    async def _closed_batch(self) -> BatchInfo:
        """The runners close it within a second of its last task."""
        assert self.batch_id is not None
        for _ in range(50):
            batch = await self.app.batch(self.batch_id)
            if batch.status == "completed":
                return batch
            await asyncio.sleep(POLL_SECONDS)
        raise DemoFailed(f"every task has ended, but the batch is still {batch.status}")
