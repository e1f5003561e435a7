"""The runner: claims due tasks, runs each as a coroutine, and drains when it is told to stop.

It owns the claim loop, the slots, and the drain. What an attempt does is in `executor.py`, what
happens when it ends in `task_end.py`, how it is stored in `task_store.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from regente.engine import log
from regente.engine.cancellation import cancel_all
from regente.engine.counters import Counters, DrainReport
from regente.engine.database import FOREVER, Database
from regente.engine.errors import DatabaseUnavailable
from regente.engine.executor import failed_attempt, failure_of, perform
from regente.engine.forkserver import ForkServer, current_forkserver
from regente.engine.hooks import Observer
from regente.engine.lease import LeaseConfig, LeaseRenewer
from regente.engine.listener import CANCEL, Listener
from regente.engine.outcome import Ended
from regente.engine.pipeline import Pipeline
from regente.engine.priority_levels import PriorityLevels
from regente.engine.registration import register_pipelines, register_runner
from regente.engine.roster import TICK_SECONDS, Roster, RunningTask
from regente.engine.task import Task
from regente.engine.task_end import TaskEnd
from regente.engine.task_store import Claim, TaskStore
from regente.engine.watchdog import Watchdog, WatchdogConfig
from regente.engine.watchdog.batches import TouchedBatches

POLL_SECONDS = 5.0  # with LISTEN: only in case a hint was lost
POLL_WITHOUT_LISTEN_SECONDS = 1.0
POLL_UNTIL_IDLE_SECONDS = 0.2
SURVEY_SECONDS = 1.0  # how old the knowledge of the queue may be in a busy runner
MIN_BACKOFF_SECONDS = 0.02
MAX_BACKOFF_SECONDS = 0.5  # between claims of due tasks that are locked or suspects
CLAIM_AT_MOST = 500  # so that the first of many start while the next are being claimed
GATHER_SECONDS = 0.004  # how long a few free slots wait for more before the claim's round trip
GC_THRESHOLDS = (50_000, 20, 50)  # with Python's 700, collecting took a fifth of the time
LOST_CLAIMS_SECONDS = 1.0  # how often to look for claims whose answer got lost
LAST_WRITES_SECONDS = 2.0  # how long the last writes may take, besides the tasks' own grace


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    concurrency: int = 100
    drain_seconds: float = 30.0
    lease: LeaseConfig = field(default_factory=LeaseConfig)
    watchdog: WatchdogConfig = field(default_factory=WatchdogConfig)
    name: str = ""


class Runner:
    def __init__(
        self,
        database: Database,
        pipelines: list[Pipeline],
        config: RunnerConfig | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._database = database
        self._observer = observer
        self._pipelines = {pipeline.name: pipeline for pipeline in pipelines}
        self.config = config or RunnerConfig()
        self.name = self.config.name or f"{socket.gethostname()}:{os.getpid()}"
        self.counters = Counters()
        self.id = 0
        self._roster = Roster()
        self._touched_batches = TouchedBatches(database)
        self._enough_free = max(1, min(self.config.concurrency // 2, CLAIM_AT_MOST // 2))
        self._levels = PriorityLevels(list(self._pipelines))
        self._backoff_seconds = MIN_BACKOFF_SECONDS
        self._wake = asyncio.Event()
        self._slots = asyncio.Event()
        self._suspects = asyncio.Event()
        self._gathering: asyncio.TimerHandle | None = None
        self._gathered = False
        self._stop_requests = 0
        self._lease_lost = False
        self._give_up_at = FOREVER
        self._report = DrainReport()
        self._listener = Listener(database, self._notified)
        self._store = TaskStore(database, 0)
        self._task_end = self._new_task_end()
        self._loop = asyncio.get_running_loop()

    async def run(self, *, until_idle: bool = False) -> DrainReport:
        """Work until `stop` is called, or until nothing is left to do."""
        log.current_runner.set(self.name)
        forkserver = ForkServer()
        current_forkserver.set(forkserver)
        await register_pipelines(self._fetch, list(self._pipelines.values()))
        self._listener.start()
        collect_every = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLDS)
        try:
            while not await self._serve(until_idle):
                log.logger.info("registering anew after a lost lease", extra={"runner": self.name})
        finally:
            gc.set_threshold(*collect_every)
            await self._listener.stop()
            await forkserver.close()
        log.runner_stopped(self.id, self.name, str(self._report))
        return self._report

    def stop(self) -> None:
        """First call: claim no more and let the running tasks finish within `drain_seconds`.
        Second call: hand them back now."""
        self._stop_requests += 1
        grace_seconds = LAST_WRITES_SECONDS + (
            self.config.drain_seconds if self._stop_requests == 1 else LAST_WRITES_SECONDS
        )
        self._give_up_at = min(self._give_up_at, time.monotonic() + grace_seconds)
        self._wake.set()
        self._slots.set()

    @property
    def running_count(self) -> int:
        return len(self._roster)

    # One registration: until the runner stops or loses its lease.

    async def _serve(self, until_idle: bool) -> bool:
        """True when the runner is done, False when it lost its lease and has to register again."""
        self.id = await self._register()
        self._lease_lost = False
        self._store = TaskStore(
            self._database, self.id, lambda: self._give_up_at, self.config.lease.ttl_seconds
        )
        self._store.start()
        self._task_end = self._new_task_end()
        lease = self._lease_renewer()
        self._store.lease_is_over = lease.is_over
        lease.start()
        background = [
            *Watchdog(self._database, self.config.watchdog, self._recovered).start(),
            asyncio.create_task(_repeat("cancels", self._watch_cancels)),
            asyncio.create_task(_repeat("batches", self._review_touched_batches)),
            asyncio.create_task(_repeat("suspects", self._run_suspect)),
            asyncio.create_task(_repeat("lost claims", self._return_unknown)),
            asyncio.create_task(_repeat("ticks", self._tick)),
        ]
        try:
            # Raised only after `stop`: until then the runner waits for the database.
            with contextlib.suppress(DatabaseUnavailable):
                await self._work(until_idle)
            if self._lease_lost:
                self._give_up_everything()  # also what the last claim brought
            else:
                await self._drain()
        except BaseException:  # cancelled from outside: the same as two calls of `stop`
            self.stop()
            self.stop()
            raise
        finally:
            await cancel_all(background)
            await self._hand_back_rest()
            await self._leave(lease)
        return not self._lease_lost or self._stop_requests > 0

    async def _register(self) -> int:
        names, config = list(self._pipelines), self.config
        runner_id = await register_runner(
            self._fetch, self.name, names, config.concurrency, config.lease.ttl_seconds
        )
        log.runner_started(runner_id, self.name, names, config.concurrency)
        return runner_id

    def _new_task_end(self) -> TaskEnd:
        return TaskEnd(
            self._roster,
            self._store,
            self.counters,
            self._touched_batches,
            self._released,
            self._queued,
        )

    def _lease_renewer(self) -> LeaseRenewer:
        return LeaseRenewer(
            self._database.url,
            self._database.connect_arguments(),
            self.id,
            self.config.lease,
            counters=self.counters.as_params,
            overdue=self._roster.overdue,
            on_given_up=lambda *ended: self._call_in_loop(self._taken_back, *ended),
            on_lost=lambda reason: self._call_in_loop(self._give_up_everything),
            revive=self._database.revive_now,
        )

    def _call_in_loop(self, function: Any, *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the tasks with it
            self._loop.call_soon_threadsafe(function, *args)

    async def _leave(self, lease: LeaseRenewer) -> None:
        await self._store.stop()
        await asyncio.to_thread(lease.stop)
        with contextlib.suppress(DatabaseUnavailable):  # then the lease runs out
            await self._fetch("hand_back", {"runner_id": self.id, "except": "{}"})
            await self._touched_batches.review()
            await self._set_status("stopped", self._report)

    async def _set_status(self, status: str, report: DrainReport | None = None) -> None:
        details = "null" if report is None else f'{{"report": "{report}"}}'
        params = {
            "runner_id": self.id,
            "status": status,
            "details": details,
            **self.counters.as_params(),
        }
        await self._fetch("renew_lease", {**params, "ttl_seconds": self.config.lease.ttl_seconds})
        await self._fetch("set_runner_status", params)

    async def _fetch(self, name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        return await self._database.fetch(name, params, give_up_at=lambda: self._give_up_at)

    # The claim loop.

    async def _work(self, until_idle: bool) -> None:
        await self._store.warm_up()
        await self._survey()
        while (free := await self._free_slots()) > 0:
            self._wake.clear()
            claims = await self._store.claim(self._levels.ask_for(self._room(free)), free)
            for claim in claims:
                self._launch(claim)
            if len(claims) < free and await self._wait_for_work(bool(claims), until_idle):
                return
            if claims and self._levels.age_seconds > SURVEY_SECONDS:
                await self._survey()

    async def _survey(self) -> None:
        self._levels.learn(await self._store.survey(list(self._pipelines)))

    async def _free_slots(self) -> int:
        """Wait for free slots worth a claim's round trip: many of them, or those of the last 4 ms.
        0: stop claiming."""
        while True:
            if self._stop_requests or self._lease_lost:
                return 0
            free = self.config.concurrency - len(self._roster)
            if free >= self._enough_free or (free > 0 and self._gathered):
                self._gathered = False
                return min(free, CLAIM_AT_MOST)
            if free > 0 and self._gathering is None:
                self._gathering = self._loop.call_later(GATHER_SECONDS, self._gather_done)
            self._slots.clear()
            await self._slots.wait()

    def _gather_done(self) -> None:
        self._gathering = None
        self._gathered = True
        self._slots.set()

    def _room(self, free: int) -> dict[str, int]:
        """How many tasks of each pipeline may start."""
        return {
            name: free
            if pipeline.concurrency is None
            else max(0, min(free, pipeline.concurrency - self._roster.count(pipeline)))
            for name, pipeline in self._pipelines.items()
        }

    async def _wait_for_work(self, claimed_some: bool, until_idle: bool) -> bool:
        """Wait for a hint or the next due task. True when `until_idle` and nothing is left to
        do."""
        if not claimed_some:
            await self._survey()
        while not self._stop_requests and not self._lease_lost:
            if until_idle and await self._is_idle():
                return True
            if await self._wait_for_hint(self._pause_seconds(until_idle, claimed_some)):
                return False
            await self._survey()  # no hint came: a survey costs less than a claim
            if self._levels.next_due_at <= time.monotonic():
                return False
        return False

    def _pause_seconds(self, until_idle: bool, claimed_some: bool) -> float:
        due_in_seconds = self._levels.next_due_at - time.monotonic()
        if due_in_seconds <= 0:
            if not claimed_some:  # due, but locked by another claim, or a suspect
                self._suspects.set()
            self._backoff_seconds = min(self._backoff_seconds * 2, MAX_BACKOFF_SECONDS)
        else:
            self._backoff_seconds = MIN_BACKOFF_SECONDS
        return max(self._backoff_seconds, min(self._poll_seconds(until_idle), due_in_seconds))

    async def _wait_for_hint(self, within_seconds: float) -> bool:
        # Not `wait_for`: in Python 3.11 it swallows a cancellation that meets the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                return await self._wake.wait()
        return False

    async def _is_idle(self) -> bool:
        if len(self._roster) or self._levels.next_due_at < FOREVER:
            return False
        if await self._store.anything_running(list(self._pipelines)):
            return False
        await self._survey()  # the last one may be older than the last task's retry
        return not len(self._roster) and self._levels.next_due_at == FOREVER

    def _poll_seconds(self, until_idle: bool) -> float:
        if until_idle:
            return POLL_UNTIL_IDLE_SECONDS
        return POLL_SECONDS if self._listener.listening else POLL_WITHOUT_LISTEN_SECONDS

    def _notified(self, channel: str, payload: str) -> None:
        """The payload is a runner's id on the cancel channel; on the other it is `pipeline priority
        seconds`, `pipeline`, or empty."""
        if channel == CANCEL:
            if payload == str(self.id):
                self._loop.create_task(self._stop_canceled())
            return
        name, *counters = payload.split(" ")
        if name and name not in self._pipelines:
            return
        if counters:
            self._levels.hear(name, int(counters[0]), float(counters[1]))
        self._wake.set()

    # One task, from claim to release.

    def _launch(self, claim: Claim) -> None:
        self.counters.claimed += 1
        pipeline = self._pipelines[claim.pipeline]
        running = RunningTask(Task(claim, pipeline, self._store), pipeline)
        self._roster.add(running)
        running.handle = self._loop.create_task(self._execute(running))

    async def _execute(self, running: RunningTask) -> None:
        task = running.task
        try:
            work = perform(task, running.pipeline)
            outcome = await (work if self._observer is None else self._observer.attempt(task, work))
        except asyncio.CancelledError as error:
            # Either `RunningTask.stop` cancelled it, which decides the outcome, or the pipeline
            # cancelled itself, which is a failure like any other.
            outcome = failed_attempt(task, running.pipeline, failure_of(task, "transient", error))
        self._task_end.ended(running, outcome)

    def _released(self, running: RunningTask) -> None:
        self._slots.set()
        if running.pipeline.concurrency is not None:
            self._wake.set()

    def _queued(self, delay_seconds: float) -> None:
        self._levels.expect(delay_seconds)
        self._wake.set()

    def _taken_back(self, claim: Claim, outcome: Ended | None) -> None:
        self._task_end.taken_back(claim, outcome)
        self._wake.set()

    # Cancel.

    async def _watch_cancels(self) -> None:
        await asyncio.sleep(
            POLL_SECONDS if self._listener.listening else POLL_WITHOUT_LISTEN_SECONDS
        )
        if self._roster:
            await self._stop_canceled()

    async def _stop_canceled(self) -> None:
        for task_id, attempt in await self._store.canceled_here():
            running = self._roster.holding(task_id, attempt)
            if running is not None:
                running.stop("cancel")
                self._loop.call_later(
                    running.pipeline.grace_seconds, self._task_end.overran, running
                )

    # Suspects of a crash, one at a time.

    async def _run_suspect(self) -> None:
        with contextlib.suppress(TimeoutError):
            # Not `wait_for`: in Python 3.11 it swallows a cancellation that meets the event, and
            # this would never end.
            async with asyncio.timeout(self.config.watchdog.suspects_every_seconds):
                await self._suspects.wait()
        idle = not self._suspects.is_set() and not self._roster  # a survey will find them
        self._suspects.clear()
        if not idle and not self._roster.has_suspect and not self._stop_requests:
            for claim in await self._store.claim_suspect(list(self._pipelines)):
                self._launch(claim)

    async def _return_unknown(self) -> None:
        await asyncio.sleep(LOST_CLAIMS_SECONDS)
        self._store.lease_is_over()
        await self._store.return_unknown(lambda: (running.task.id for running in self._roster))

    async def _tick(self) -> None:
        self._roster.tick()
        await asyncio.sleep(TICK_SECONDS)

    async def _review_touched_batches(self) -> None:
        await asyncio.sleep(0.5)
        await self._touched_batches.review()

    def _recovered(self, count: int) -> None:
        self.counters.recovered += count
        self._wake.set()

    # The drain.

    async def _drain(self) -> None:
        held, left_before = len(self._roster), self._task_end.left
        handed_back_before = self.counters.handed_back
        with contextlib.suppress(DatabaseUnavailable):
            await self._set_status("draining")
        for running in self._roster:
            if running.pipeline.endless:
                running.stop("drain")
        deadline = time.monotonic() + self.config.drain_seconds
        while (
            self._roster
            and time.monotonic() < deadline
            and self._stop_requests < 2
            and not self._lease_lost
        ):
            await asyncio.sleep(0.02)
        await self._hand_back_rest()
        handed_back = self.counters.handed_back - handed_back_before
        if handed_back:
            with contextlib.suppress(DatabaseUnavailable):
                await self._fetch("call_runners", {})
        left, lost = self._task_end.left - left_before, len(self._roster)
        self._report = DrainReport(held - handed_back - left - lost, handed_back, lost, left)

    async def _hand_back_rest(self) -> None:
        for running in self._roster:
            running.stop("drain")
        deadline = time.monotonic() + max(
            (running.pipeline.grace_seconds for running in self._roster), default=0.0
        )
        while self._roster and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        for running in self._roster:
            self._task_end.overran(running)
        while self._roster and not self._lease_lost:
            await asyncio.sleep(0.01)

    def _give_up_everything(self) -> None:
        """The lease is over: other runners may take these tasks."""
        self._lease_lost = True
        for running in self._roster:
            self._task_end.lease_lost(running)
        self._wake.set()
        self._slots.set()


async def _repeat(name: str, once: Callable[[], Awaitable[None]]) -> None:
    """Run it again and again; an error is logged and does not end it."""
    while True:
        try:
            await once()
        except Exception as error:
            log.sweep_failed(name, error)
            await asyncio.sleep(1.0)
