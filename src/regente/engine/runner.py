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
from regente.engine.attempt_tasks import tasks_of_attempts
from regente.engine.cancellation import cancel_all
from regente.engine.counters import Counters, DrainReport
from regente.engine.database import FOREVER, ClientDatabase
from regente.engine.enqueue import Enqueuer
from regente.engine.errors import DatabaseUnavailable, InvalidInput
from regente.engine.executor import failed_attempt, failure_of, perform
from regente.engine.forkserver import ForkServer, current_forkserver
from regente.engine.hooks import Observer
from regente.engine.lane_calls import LaneCalls
from regente.engine.lane_knowledge import LaneKnowledge
from regente.engine.lane_watch import LaneWatch
from regente.engine.lease import LOOK_EVERY_SECONDS, LeaseConfig, LeaseRenewer
from regente.engine.listener import CANCEL, LANED, LANES, Listener
from regente.engine.outcome import Ended
from regente.engine.overdue import OverdueWatch
from regente.engine.pipeline import Pipeline, is_count
from regente.engine.priority_levels import PriorityLevels, rank_of
from regente.engine.registration import read_installation, register_pipelines, register_runner
from regente.engine.roster import TICK_SECONDS, Roster, RunningTask
from regente.engine.surveyor import Surveyor
from regente.engine.task import Task
from regente.engine.task_end import TaskEnd
from regente.engine.task_store import Claim, TaskStore
from regente.engine.watchdog import Watchdog, WatchdogConfig
from regente.engine.watchdog.batches import TouchedBatches
from regente.engine.watchdog.lanes import sweep_lanes

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
LATE_SECONDS = 1.0
LAST_WRITES_SECONDS = 2.0  # how long the last writes may take, besides the tasks' own grace


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    concurrency: int = 100
    drain_seconds: float = 30.0
    lease: LeaseConfig = field(default_factory=LeaseConfig)
    watchdog: WatchdogConfig = field(default_factory=WatchdogConfig)
    name: str = ""

    def __post_init__(self) -> None:
        if not is_count(self.concurrency):
            raise InvalidInput(
                f"the concurrency of a runner is a whole number from 1, not {self.concurrency!r}"
            )


class Runner:
    def __init__(
        self,
        clients: ClientDatabase,
        pipelines: list[Pipeline],
        intake: Enqueuer,
        config: RunnerConfig | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.config = config or RunnerConfig()
        self._intake = intake
        self._database, self._transactions = clients.for_runner(
            self.config.lease.ttl_seconds, self._end_registration
        )
        self._observer = observer
        self._pipelines = {pipeline.name: pipeline for pipeline in pipelines}
        self.name = self.config.name or f"{socket.gethostname()}:{os.getpid()}"
        self.counters = Counters()
        self.id = 0
        self._roster = Roster()
        self._touched_batches = TouchedBatches(self._database)
        self._enough_free = max(1, min(self.config.concurrency // 2, CLAIM_AT_MOST // 2))
        self._levels = PriorityLevels(list(self._pipelines))
        self._backoff_seconds = MIN_BACKOFF_SECONDS
        self._wake = asyncio.Event()
        self._surveyor = Surveyor(
            list(self._pipelines), self._levels, lambda: self._store, self._wake.set
        )
        self._lanes = LaneKnowledge(list(self._pipelines))
        self._lane_watch = LaneWatch(self._fetch, self._lane_ready)
        self._lanes_surveyed_at = -FOREVER
        self._lanes_are_first = False
        self._slots = asyncio.Event()
        self._suspects = asyncio.Event()
        self._claiming = asyncio.Lock()  # so that each claim counts what the other one started
        self._stops = asyncio.Event()
        self._gathering: asyncio.TimerHandle | None = None
        self._gathered = False
        self._stop_requests = 0
        self._lease_lost = False
        self._give_up_at = FOREVER
        self._report = DrainReport()
        self._listener = Listener(self._database, self._notified)
        self._store = TaskStore(self._database, 0)
        self._task_end = self._new_task_end()
        self._loop = asyncio.get_running_loop()

    async def run(self, *, until_idle: bool = False) -> DrainReport:
        """Work until `stop` is called, or until nothing is left to do."""
        log.current_runner.set(self.name)
        forkserver = ForkServer()
        current_forkserver.set(forkserver)
        collect_every = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLDS)
        await self._database.open_pool()
        await self._transactions.open()
        try:
            await register_pipelines(self._fetch, list(self._pipelines.values()))
            self._listener.start()
            with tasks_of_attempts(self._loop):
                while not await self._serve(until_idle):
                    log.registers_again(self.name)
        finally:
            gc.set_threshold(*collect_every)
            await self._listener.stop()
            await forkserver.close()
            await self._transactions.close()
            await self._database.close()
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
        self.counters = Counters()  # each registration has a row of its own
        self._lease_lost = False
        self._store = TaskStore(
            self._database,
            self.id,
            lambda: self._give_up_at,
            self.config.lease.ttl_seconds,
            self._transactions,
        )
        self._store.installation = await read_installation(self._fetch)
        self._store.intake = self._intake
        self._store.calls = LaneCalls(self._fetch, self.id, self._lane_watch)
        self._store.start()
        self._task_end = self._new_task_end()
        lease = self._lease_renewer()
        overdue = self._overdue_watch(lease)
        self._store.lease_is_over = lease.is_over
        lease.start()
        overdue.start()
        background = [
            *Watchdog(self._database, self.config.watchdog, self._recovered).start(),
            asyncio.create_task(_repeat("stops", self._watch_stops)),
            asyncio.create_task(_repeat("batches", self._touched_batches.review_soon)),
            asyncio.create_task(_repeat("suspects", self._run_suspect)),
            asyncio.create_task(_repeat("lanes", self._lane_watch.run_once)),
            asyncio.create_task(_repeat("lost claims", self._return_unknown)),
            asyncio.create_task(_watch(lease)),
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
            await self._surveyor.stop()
            await self._hand_back_rest()
            await asyncio.to_thread(overdue.stop)
            await self._leave(lease)
        return not self._lease_lost or self._stop_requests > 0

    async def _register(self) -> int:
        names, config = list(self._pipelines), self.config
        runner_id = await register_runner(
            self._fetch,
            self.name,
            list(self._pipelines.values()),
            config.concurrency,
            config.lease.ttl_seconds,
            self._database.application_name,
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
            self._lane_watch.ended,
        )

    def _lease_renewer(self) -> LeaseRenewer:
        return LeaseRenewer(
            self._database.url,
            self._database.connect_arguments(),
            self.id,
            self.config.lease,
            timeline=self._database.timeline,
            counters=self.counters.as_params,
            on_lost=lambda reason: self._call_in_loop(self._give_up_everything),
            revive=self._database.revive_now,
        )

    def _overdue_watch(self, lease: LeaseRenewer) -> OverdueWatch:
        return OverdueWatch(
            self._database.url,
            self._database.connect_arguments(),
            self.id,
            at_least_every_seconds=self.config.lease.renew_every_seconds / 2,
            overdue=self._roster.overdue,
            on_given_up=lambda *ended: self._call_in_loop(self._taken_back, *ended),
            lease_is_over=lease.is_over,
        )

    def _call_in_loop(self, function: Any, *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the tasks with it
            self._loop.call_soon_threadsafe(function, *args)

    async def _leave(self, lease: LeaseRenewer) -> None:
        await self._store.stop()
        await asyncio.to_thread(lease.stop)
        if self._lease_lost:  # maybe by a failover
            await self._transactions.close()
            await self._database.reopen()
            await self._transactions.open()
        with contextlib.suppress(DatabaseUnavailable):  # then the lease runs out
            await self._fetch("hand_back", {"runner_id": self.id, "except": "{}"})
            await self._lane_watch.flush()
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
        lease = {"ttl_seconds": self.config.lease.ttl_seconds}
        await self._fetch_unless_locked("renew_lease", {**params, **lease})
        await self._fetch_unless_locked("set_runner_status", params)

    async def _fetch(self, name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        return await self._database.fetch(name, params, give_up_at=lambda: self._give_up_at)

    async def _fetch_unless_locked(self, name: str, params: dict[str, Any]) -> None:
        await self._database.fetch_unless_locked(name, params, give_up_at=lambda: self._give_up_at)

    # The claim loop.

    async def _work(self, until_idle: bool) -> None:
        await self._store.warm_up()
        await self._survey(all_levels=True)
        while (free := await self._free_slots()) > 0:
            self._wake.clear()
            if self._surveyor.is_wanted:
                await self._survey()
            async with self._claiming:
                claimed = await self._claim(free)
            if claimed < free and await self._wait_for_work(claimed > 0, until_idle):
                return
            if claimed and self._surveyor.age_seconds > SURVEY_SECONDS:
                await self._survey()

    async def _claim(self, free: int) -> int:
        """Claim and start up to `free` tasks; how many. When tasks with and without a lane are due,
        each kind gets half of the slots, and what the other one leaves."""
        if not self._lanes.is_due:
            return await self._claim_without_lanes(free)
        self._lanes_are_first = not self._lanes_are_first
        kinds = [self._claim_without_lanes, self._claim_from_lanes]
        if self._lanes_are_first:
            kinds.reverse()
        half = (free + 1) // 2 if self._levels.next_due_at <= time.monotonic() else free
        claimed = first = await kinds[0](half)
        if claimed < free:
            claimed += await kinds[1](free - claimed)
        if first == half and claimed < free:
            claimed += await kinds[0](free - claimed)
        return claimed

    async def _claim_without_lanes(self, free: int) -> int:
        claims = await self._store.claim(self._levels.ask_for(self._room(free)), free)
        for claim in claims:
            self._launch(claim)
        self._levels.claimed(
            (claim.pipeline, rank_of(claim.priority, claim.attempt - 1), (claim.run_at, claim.id))
            for claim in claims
        )
        return len(claims)

    async def _claim_from_lanes(self, free: int) -> int:
        """Until the slots are taken or no lane is left that was ready."""
        claimed = 0
        while claimed < free:
            room = self._room(free - claimed)
            asked = self._lanes.lanes_for(free - claimed)
            due = {name: room[name] for name in self._lanes.due_pipelines()}
            found = await self._store.claim_lanes(due, free - claimed, asked)
            for claim in found.claims:
                self._launch(claim)
            claimed += len(found.claims)
            self._lane_watch.look(found.to_look_at)
            self._lanes.claimed(len(found.claims), found.ready)
            if found.ready < asked or not (found.claims or found.to_look_at):
                break
        if claimed < free:
            await self._survey_lanes()
        return claimed

    async def _survey(self, *, all_levels: bool = False) -> None:
        await self._surveyor.survey(all_levels=all_levels)
        age_seconds = time.monotonic() - self._lanes_surveyed_at
        if self._lanes.has_lanes or age_seconds >= self._poll_seconds(all_levels):
            await self._survey_lanes()

    async def _survey_lanes(self) -> None:
        self._lanes.begin_survey()
        found, with_suspects = await self._store.survey_lanes(list(self._pipelines))
        self._lanes.learn(found)
        self._lanes_surveyed_at = time.monotonic()
        if with_suspects:
            self._suspects.set()
        for pipeline in with_suspects:  # so that the runner is not idle
            self._lanes.hear(pipeline, SURVEY_SECONDS)

    @property
    def _next_due_at(self) -> float:
        return min(self._levels.next_due_at, self._lanes.next_due_at)

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
            await self._survey(all_levels=until_idle)
            if self._levels.has_news:
                return False
        while not self._stop_requests and not self._lease_lost:
            if until_idle and await self._is_idle():
                return True
            pause_seconds = self._pause_seconds(until_idle, claimed_some)
            if await _set_within(self._wake, pause_seconds):
                return False
            await self._survey(all_levels=until_idle)
            if self._next_due_at <= time.monotonic():
                return False
        return False

    def _pause_seconds(self, until_idle: bool, claimed_some: bool) -> float:
        due_in_seconds = self._next_due_at - time.monotonic()
        if due_in_seconds <= 0:
            if not claimed_some:  # due, but locked by another claim, or a suspect
                self._suspects.set()
            self._backoff_seconds = min(self._backoff_seconds * 2, MAX_BACKOFF_SECONDS)
        else:
            self._backoff_seconds = MIN_BACKOFF_SECONDS
        survey_seconds = self._surveyor.due_in_seconds
        pause_seconds = min(self._poll_seconds(until_idle), due_in_seconds, survey_seconds)
        return max(self._backoff_seconds, pause_seconds)

    async def _is_idle(self) -> bool:
        if len(self._roster) or self._next_due_at < FOREVER:
            return False
        if await self._store.anything_running(list(self._pipelines)):
            return False
        await self._touched_batches.review()  # wakes parents, and queues what follows a batch
        if self._touched_batches.are_left:
            return False
        # The last survey may be older than the last task's retry, and lanes may not be looked at.
        await sweep_lanes(self._database)
        self._lanes_surveyed_at = -FOREVER
        await self._survey(all_levels=True)
        return not len(self._roster) and self._next_due_at == FOREVER

    def _poll_seconds(self, until_idle: bool) -> float:
        if until_idle:
            return POLL_UNTIL_IDLE_SECONDS
        return POLL_SECONDS if self._listener.listening else POLL_WITHOUT_LISTEN_SECONDS

    def _notified(self, channel: str, payload: str) -> None:
        """The payload is a runner's id on the cancel channel, `pipeline seconds` for a lane that
        will be ready then, `pipeline lane` for one with a new task."""
        name, _, rest = payload.partition(" ")
        if channel == CANCEL:
            if payload == str(self.id):
                self._stops.set()
        elif channel == LANES:
            self._lane_ready(name, float(rest))
        elif channel == LANED:
            if name in self._pipelines:
                self._lane_watch.look([(rest, name)])
        else:
            self._hear_level(name, rest.split())

    def _hear_level(self, name: str, level: list[str]) -> None:
        """A pipeline with `priority due_in_seconds run_at`, or alone, or empty, when only a survey
        can tell."""
        if name and name not in self._pipelines:
            return
        if level:
            priority, *seconds = level  # a client of an earlier version sends no `run_at`
            for attempt in (0, 1):
                rank = rank_of(int(priority), attempt)
                self._levels.hear(name, rank, *map(float, seconds))
        else:
            self._levels.is_unsure = True
        self._wake.set()

    def _lane_ready(self, pipeline: str, due_seconds: float) -> None:
        if pipeline in self._pipelines:
            self._lanes.hear(pipeline, due_seconds)
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

    def _queued(self, claim: Claim, delay_seconds: float) -> None:
        if claim.lane is not None:
            return  # `LaneWatch` finds out when
        rank = rank_of(claim.priority, claim.attempt)
        self._levels.hear(claim.pipeline, rank, delay_seconds)
        if delay_seconds <= 0:  # at a time of its own, perhaps one in the past
            self._levels.is_unsure = True
        self._wake.set()

    def _taken_back(self, claim: Claim, outcome: Ended | None) -> None:
        self._task_end.taken_back(claim, outcome)
        self._levels.is_unsure = True
        self._wake.set()

    # Tasks that were canceled, or taken back by another session.

    async def _watch_stops(self) -> None:
        await _set_within(self._stops, self._poll_seconds(until_idle=False))
        self._stops.clear()
        if self._roster:
            await self._stop_unwanted()

    async def _stop_unwanted(self) -> None:
        claims = [running.task.claim for running in self._roster]
        for task_id, attempt, lost in await self._store.to_be_stopped(claims):
            running = self._roster.find(task_id, attempt)
            if running is None:
                continue
            if lost:
                self._task_end.taken_over(running)
            else:
                running.stop("cancel")
            self._loop.call_later(running.pipeline.grace_seconds, self._task_end.overran, running)

    # Suspects of a crash, one at a time.

    async def _run_suspect(self) -> None:
        await _set_within(self._suspects, self.config.watchdog.suspects_every_seconds)
        idle = not self._suspects.is_set() and not self._roster  # a survey will find them
        self._suspects.clear()
        if not idle and not self._roster.has_suspect and not self._stop_requests:
            async with self._claiming:
                room = [name for name, slots in self._room(1).items() if slots]
                claims = await self._store.claim_suspect(room)
                if not claims:
                    claims = await self._store.claim_lane_suspect(room)
                for claim in claims:
                    self._launch(claim)

    async def _return_unknown(self) -> None:
        await asyncio.sleep(LOST_CLAIMS_SECONDS)
        self._store.lease_is_over()
        await self._store.return_unknown(lambda: (running.task.id for running in self._roster))

    async def _tick(self) -> None:
        self._roster.tick()
        await asyncio.sleep(TICK_SECONDS)

    def _recovered(self, count: int) -> None:
        self.counters.recovered += count
        self._levels.is_unsure = True
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
        while self._roster and not self._lease_lost and not self._store_is_late():
            await asyncio.sleep(0.01)

    def _store_is_late(self) -> bool:
        """The time for the last writes is over, and a second more for giving them up."""
        return time.monotonic() > self._give_up_at + LATE_SECONDS

    def _end_registration(self) -> None:
        log.timeline_over(self.id)
        self._give_up_everything()

    def _give_up_everything(self) -> None:
        """The lease is over: other runners may take these tasks."""
        self._lease_lost = True
        for running in self._roster:
            self._task_end.lease_lost(running)
        self._wake.set()
        self._slots.set()


async def _watch(lease: LeaseRenewer) -> None:
    """Watch the lease's thread: abort its connection when that gets no answer in time."""
    while not lease.is_over():
        lease.abort_if_silent()
        await asyncio.sleep(max(0.0, min(lease.left_seconds(), LOOK_EVERY_SECONDS)))


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event; False when it is not set in time."""
    # Not `wait_for`: in Python 3.11 it swallows a cancellation that meets the event, and the
    # waiting task would never end.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False


async def _repeat(name: str, once: Callable[[], Awaitable[None]]) -> None:
    """Run it again and again; an error is logged and does not end it."""
    while True:
        try:
            await once()
        except Exception as error:
            log.sweep_failed(name, error)
            await asyncio.sleep(1.0)
