"""One campaign: missions are queued, runners are killed, frozen and redeployed by the plan,
peers fail by it."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.pipelines.missions.faults.conftest import SHORT_LEASE, Environment, missions_on
from tests.pipelines.missions.faults.peers import JobScript, WatchedJob
from tests.pipelines.missions.faults.plan import Plan, ProcessFault
from tests.pipelines.missions.faults.runner_processes import RunnerProcess
from tests.support.eventually import eventually
from tests.support.peers import Fault, Peer

FEEDS = 10
# Every proxy meets stuck sessions here; that they stay in is what lets the campaign end.
CONFIG: dict[str, Any] = {
    "max_proxy_failures": 1_000_000,
    "polling_job": 0.15,
    "polling_session": 0.1,
    "drain_seconds": 2.0,
} | SHORT_LEASE
FAULT_RATES = {500: 0.004, 503: 0.01, 429: 0.004}
STUCK_AT_START = 0.04

Say = Callable[[str], None]


@dataclass
class RandomFaults(Fault):
    """Some calls fail: before the peer acts or, for half of the server errors, afterwards."""

    dice: random.Random = None  # type: ignore[assignment]

    def matches(self, request: Request) -> bool:
        drawn = self.dice.random()
        for status, share in FAULT_RATES.items():
            drawn -= share
            if drawn < 0:
                self.after = status != 429 and self.dice.random() < 0.5
                self.answer = partial(
                    JSONResponse,
                    {"error": {"message": "random fault"}},
                    status,
                    {"Retry-After": "0.1"},
                )
                return True
        return False


class Campaign:
    def __init__(self, env: Environment, plan: Plan, say: Say) -> None:
        self.env = env
        self.plan = plan
        self._say = say
        self._processes: list[RunnerProcess] = []
        self._turns: list[asyncio.Lock] = []
        self.exit_codes: list[int] = []
        self.seconds = 0.0

    async def run(self, timeout_seconds: float) -> None:
        self._prepare_peers()
        self._processes = [self._start() for _ in range(self.plan.runners)]
        self._turns = [
            asyncio.Lock() for _ in self._processes
        ]  # one thing at a time is done to each
        began = time.monotonic()
        await asyncio.gather(
            self._feed(began), *(self._do(fault, began) for fault in self.plan.process_faults)
        )
        self._clear_faults()
        await self.env.all_ended(within_seconds=timeout_seconds)
        await self.env.at_rest()
        self.seconds = time.monotonic() - began
        for one in self._processes:
            one.send(signal.SIGTERM)
        self.exit_codes += [await self.env.ended(one) for one in self._processes]

    def _start(self) -> RunnerProcess:
        return self.env.runner(**CONFIG)

    async def _feed(self, began: float) -> None:
        """Queues a tenth at a time, until the last fault."""
        count = len(self.plan.missions)
        for number in range(FEEDS):
            await asyncio.sleep(
                max(0.0, began + number * self.plan.feed_seconds / FEEDS - time.monotonic())
            )
            first, end = number * count // FEEDS, (number + 1) * count // FEEDS
            await self.env.app.missions.create(missions_on(end - first, first), queue=True)

    async def _do(self, fault: ProcessFault, began: float) -> None:
        await asyncio.sleep(max(0.0, began + fault.at_seconds - time.monotonic()))
        async with self._turns[fault.target]:
            await self._do_now(fault)

    async def _do_now(self, fault: ProcessFault) -> None:
        target = self._processes[fault.target]
        if fault.kind == "pause":
            target.send(signal.SIGSTOP)
            await asyncio.sleep(fault.seconds)
            target.send(signal.SIGCONT)
            return
        if fault.kind == "deploy":
            await asyncio.to_thread(eventually, target.started, within_seconds=20)
        target.send(signal.SIGKILL if fault.kind == "kill" else signal.SIGTERM)
        code = await self.env.ended(target)
        if fault.kind == "deploy":
            self.exit_codes.append(code)
            self._say(f"deployed {fault.target}: {target.said().strip().splitlines()[-1:]}")
        await asyncio.sleep(fault.seconds)
        self._processes[fault.target] = self._start()

    # The peers, by the plan.

    def _prepare_peers(self) -> None:
        dice = random.Random(self.plan.seed + 1)
        for worker in self.env.workers:
            worker.script_of = self._scrape_script
            worker.states_of = lambda: [
                "initializing",
                "stuck" if dice.random() < STUCK_AT_START else "ready",
            ]
        self.env.writer.script_of = self._storage_script
        peers: list[Peer] = [*self.env.workers, self.env.writer]
        for peer in peers:
            peer.faults.append(RandomFaults("", "", Response, dice=dice))

    def _clear_faults(self) -> None:
        for peer in [*self.env.workers, self.env.writer]:
            peer.faults.clear()

    def scrapes_of(self, day: date) -> list[WatchedJob]:
        found = [
            job for worker in self.env.workers for job in worker.watched.values() if job.day == day
        ]
        return sorted(found, key=lambda job: job.began)

    def _scrape_script(self, day: date) -> JobScript:
        return self.plan.missions[day].scrape(sum(job.ran_to_end for job in self.scrapes_of(day)))

    def _storage_script(self, scrape_id: str) -> JobScript:
        day = self.day_of(scrape_id)
        earlier = [
            job for job in self.env.writer.watched.values() if self.day_of(job.scrape_id) == day
        ]
        return self.plan.missions[day].storage(len(earlier))

    def day_of(self, scrape_id: str) -> date:
        return next(
            worker.watched[scrape_id].day
            for worker in self.env.workers
            if scrape_id in worker.watched
        )
