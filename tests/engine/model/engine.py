"""The real engine with a stopped clock: its task store, client and sweeps, called one at a time.

Seconds are counted from EPOCH, so that the database and the model speak of the same numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import psycopg

from regente import Task
from regente.engine.client import Client
from regente.engine.database import ClientDatabase, TaskConnections, number_array, text_array
from regente.engine.executor import failed_attempt
from regente.engine.outcome import Completed, Ended, Failure
from regente.engine.pipeline import Pipeline, Registry
from regente.engine.priority_levels import BEGINNING, LevelRequest, rank_of
from regente.engine.retry import Retry
from regente.engine.task_store import Claim, Completion, Settlement, StepRecord, TaskStore
from regente.engine.watchdog.batches import BatchReview, review_batches
from regente.engine.watchdog.reaper import Reaper
from regente.engine.watchdog.stalls import StallSweep
from tests.engine.model import model

T = TypeVar("T")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PIPELINES = ("alpha", "beta")
PRIORITIES = (5, 0)
LEVELS = [
    (pipeline, rank_of(priority, attempt))
    for pipeline in PIPELINES
    for priority in PRIORITIES
    for attempt in (1, 0)
]
FIGURES = dict.fromkeys(
    ("claimed", "completed", "failed", "retried", "recovered", "handed_back", "busy_seconds"), 0
)
LANE_LIMITS = (
    "lane_concurrencies",
    "lane_rates",
    "lane_bursts",
    "lane_min_rates",
    "lane_weights",
    "lane_breakers",
)
FREEZE_CLOCK = """
CREATE TABLE public.clock_of_test (now timestamptz NOT NULL);
INSERT INTO public.clock_of_test VALUES ('2026-01-01 00:00:00+00');
CREATE OR REPLACE FUNCTION regente.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
  AS 'SELECT now FROM public.clock_of_test';
"""
EMPTY = """
TRUNCATE regente.tasks, regente.steps, regente.intents, regente.events,
    regente.failures, regente.snapshots,
    regente.batches, regente.runners,
    regente.pipelines, regente.lanes, regente.lane_queues, regente.lane_calls,
    regente.schedules CASCADE;
UPDATE public.clock_of_test SET now = '2026-01-01 00:00:00+00';
"""


class Session:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    @property
    def closed(self) -> bool:
        """Whether the server has ended it."""
        try:
            self._connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return False


class Engine:
    name_of_sessions = "regente runner of the model"

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(FREEZE_CLOCK)
        self._loop = asyncio.Runner()
        self.registry = Registry()
        retry = Retry(max_attempts=model.MAX_ATTEMPTS, first=10, factor=1, jitter=False)
        for name in PIPELINES:
            self.registry.add(
                Pipeline(name, _never_run, retry=retry, stall_after_seconds=model.STALL_SECONDS)
            )
        self.database = ClientDatabase(url)
        self.transactions = TaskConnections(self.database, 4)
        self.client = Client(self.database, self.registry)
        self.stores: dict[int, TaskStore] = {}
        self.run(self._open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)

    async def _open(self) -> None:
        await self.database.open()
        await self.transactions.open()
        self.client.start()

    def close(self) -> None:
        self.forget_runners()
        self.run(self.client.stop())
        self.run(self.transactions.close())
        self.run(self.database.close())
        self._loop.close()
        self.connection.close()

    def empty(self) -> None:
        self.forget_runners()
        self.connection.execute(EMPTY)
        params = {
            "names": text_array(PIPELINES),
            "stall_afters": number_array([model.STALL_SECONDS] * 2),
            "expire_afters": number_array([None] * 2),
            "max_attempts": number_array([model.MAX_ATTEMPTS] * 2),
            "endless": text_array(["f"] * 2),
            "kept": text_array(["f"] * 2),
            "args_schemas": text_array([None] * 2),
            "tell_lanes": text_array(["f"] * 2),
            **dict.fromkeys(LANE_LIMITS, number_array([None] * 2)),
        }
        self.run(self.database.fetch("register_pipelines", params))

    def forget_runners(self) -> None:
        for store in self.stores.values():
            self.run(store.stop())
        self.stores.clear()

    def advance(self, seconds: int) -> None:
        self.connection.execute(
            "UPDATE public.clock_of_test SET now = now + make_interval(secs => %s)", (seconds,)
        )

    @contextlib.contextmanager
    def session(self, name: str) -> Iterator[Session]:
        """A transaction of a session with this name."""
        with psycopg.connect(self.database.url, application_name=name) as connection:
            connection.execute("SELECT 1")
            yield Session(connection)

    @contextlib.contextmanager
    def locked(self, claims: Sequence[Claim]) -> Iterator[Callable[[], None]]:
        """A session that has locked these tasks' rows, until what is given is called."""
        with psycopg.connect(self.database.url, application_name="holder") as connection:
            ids = [claim.id for claim in claims]
            lock = "SELECT FROM regente.tasks WHERE id = ANY (%s) FOR UPDATE"
            connection.execute(lock, (ids,))
            yield connection.rollback

    def outlive_lease(self) -> None:
        """Time in which another runner renews, until the leases of all others are over."""
        witness = self.register()
        for _ in range(4):
            self.advance(model.LEASE_SECONDS // 4 + 1)
            self.renew(witness)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(text).fetchall()

    # Runners.

    def register(self) -> int:
        params = {
            "name": "r",
            "host": "h",
            "pid": 1,
            "version": "0",
            "versions": "{}",
            "pipelines": text_array(PIPELINES),
            "concurrency": 1,
            "connections": self.name_of_sessions,
        }
        return self.run(self._register({**params, "ttl_seconds": model.LEASE_SECONDS}))

    async def _register(self, params: dict[str, Any]) -> int:
        runner_id = int((await self.database.fetch("register_runner", params))[0][0])
        self.stores[runner_id] = TaskStore(self.database, runner_id, transactions=self.transactions)
        self.stores[runner_id].start()
        return runner_id

    def renew(self, runner_id: int) -> bool:
        params = {"runner_id": runner_id, "ttl_seconds": model.LEASE_SECONDS, **FIGURES}
        return bool(self.run(self.database.fetch("renew_lease", params)))

    def stop_runner(self, runner_id: int) -> None:
        params = {"runner_id": runner_id, "status": "stopped", "details": "null"}
        self.run(self.database.fetch("set_runner_status", params))

    def hand_back_all(self, runner_id: int) -> None:
        self.run(self.database.fetch("hand_back", {"runner_id": runner_id, "except": "{}"}))

    def claim(self, runner_id: int, free: int) -> list[Claim]:
        asked = [LevelRequest(pipeline, rank, BEGINNING, free) for pipeline, rank in LEVELS]
        return self.run(self.stores[runner_id].claim(asked, free))

    def claim_suspect(self, runner_id: int) -> list[Claim]:
        return self.run(self.stores[runner_id].claim_suspect(PIPELINES))

    # Writes on behalf of a task, by the task store of the runner that claimed it.

    def record(self, runner_id: int, claim: Claim, step: str) -> bool:
        return self.run(
            self.stores[runner_id].marked.write(
                StepRecord(claim, step, output="1", checkpoint=step)
            )
        )

    def finish(self, runner_id: int, claim: Claim) -> bool:
        return self.run(
            self.stores[runner_id].finished.write(Completion(claim, Completed('"done"'), None))
        )

    def settle(self, runner_id: int, claim: Claim, outcome: Ended) -> bool:
        return self.run(self.stores[runner_id].settled.write(Settlement(claim, outcome)))

    def failed_attempt(self, runner_id: int, claim: Claim) -> Ended:
        """The engine's own decision between another attempt and a dead letter."""
        pipeline = self.registry.get(claim.pipeline)
        assert pipeline is not None
        task: Task[Any] = Task(claim, pipeline, self.stores[runner_id])
        return failed_attempt(task, pipeline, Failure("transient", "FAILED", "it failed"))

    # Sweeps.

    def reap(self) -> None:
        self.run(Reaper(self.database, 1, model.MAX_CRASHES, lambda _: None).run_once())

    def release_stalled(self) -> None:
        self.run(StallSweep(self.database, 1, lambda _: None).run_once())

    def review(self, touched: int | None = None) -> None:
        if touched is None:
            self.run(BatchReview(self.database, 1).run_once())
        else:
            self.run(review_batches(self.database, [touched]))


def at(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


@contextlib.contextmanager
def engine_on(url: str) -> Iterator[Engine]:
    engine = Engine(url)
    try:
        yield engine
    finally:
        engine.close()


async def _never_run(task: Task) -> None:
    """The model plays the pipelines itself."""
