"""The measurements of every peer: drain, bulk enqueue, latency and durable steps.

All start from an empty database, run the peer's own program and then check in the database that
the work was done. A drain is timed from the first claim until the last completion is visible as
committed.
"""

import time
from dataclasses import dataclass
from statistics import quantiles

from benchmarks.catalogue import Peer, Store
from benchmarks.environments import Environment
from benchmarks.processes import Crew, PeerFailedError, command, crew
from benchmarks.servers import PostgresServer, RedisServer

DRAIN_SECONDS = 600.0
STEPS_PER_TASK = 5
CELERY_LEFT = ("LLEN celery", "HLEN unacked")


@dataclass(frozen=True, slots=True)
class Stage:
    """One peer and its server."""

    environment: Environment
    postgres: PostgresServer
    redis: RedisServer | None = None

    @property
    def peer(self) -> Peer:
        return self.environment.peer

    @property
    def database(self) -> str:
        return f"bench_{self.peer.name}"

    @property
    def url(self) -> str:
        if self.peer.store is Store.POSTGRES:
            return self.postgres.url(self.database)
        assert self.redis is not None
        return self.redis.url

    def clear(self) -> None:
        """Create an empty database with the peer's schema."""
        if self.peer.store is Store.POSTGRES:
            self.postgres.fresh_database(self.database)
        else:
            assert self.redis is not None
            self.redis.ask("FLUSHALL")
        command(self.environment, "setup", self.url)

    def enqueue(self, kind: str, count: int) -> float:
        """Seconds that the peer's bulk call took."""
        seconds = float(command(self.environment, "enqueue", self.url, kind, str(count))["seconds"])
        if (left := self.unfinished()) != count:
            raise PeerFailedError(f"enqueued {count}, found {left}")
        return seconds

    def settle(self) -> None:
        if self.peer.store is Store.POSTGRES:
            self.postgres.settle(self.database)

    def unfinished(self) -> int:
        if self.peer.store is Store.REDIS:
            assert self.redis is not None
            return sum(int(self.redis.ask(question).lstrip(":")) for question in CELERY_LEFT)
        return self.count(self.peer.unfinished)

    def count(self, query: str) -> int:
        with self.postgres.connect(self.database) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(str(row[0]))

    def wait_until_committed(self, timeout_seconds: float = DRAIN_SECONDS) -> int:
        """Wait until no task is unfinished; return the monotonic time."""
        deadline = time.monotonic() + timeout_seconds
        if self.peer.store is Store.REDIS:
            while self.unfinished():
                if time.monotonic() > deadline:
                    raise PeerFailedError("not everything was acknowledged")
                time.sleep(0.001)
            return time.monotonic_ns()
        with self.postgres.connect(self.database) as connection:
            while True:
                row = connection.execute(self.peer.unfinished).fetchone()
                now = time.monotonic_ns()
                if row == (0,):
                    return now
                if time.monotonic() > deadline:
                    raise PeerFailedError(f"{row} tasks are still unfinished in the database")
                time.sleep(0.001)

    def verify(self, working: Crew, count: int) -> None:
        """Check that every task ran once and is recorded as done, if the peer records it."""
        if (handled := working.handled()) != count:
            raise PeerFailedError(f"{count} tasks, but {handled} handler calls")
        if self.peer.completed and (completed := self.count(self.peer.completed)) != count:
            raise PeerFailedError(f"{count} tasks, but {completed} recorded as completed")


def drain(stage: Stage, count: int, *, processes: int = 1, kind: str = "noop") -> float:
    """Tasks per second over a backlog that was enqueued before the workers started."""
    stage.clear()
    stage.enqueue(kind, count)
    return drain_backlog(stage, count, processes=processes, kind=kind)


def drain_backlog(
    stage: Stage, count: int, *, processes: int = 1, kind: str = "noop", verify: bool = True
) -> float:
    stage.settle()
    with crew(stage.environment, stage.url, kind, size=processes) as working:
        working.go()
        working.wait_until_handled(count, DRAIN_SECONDS)
        finished_ns = stage.wait_until_committed()
        if verify:
            time.sleep(0.05)  # a task that ran twice would still be counted
            stage.verify(working, count)
        working.stop()
    return count / ((finished_ns - working.started_ns) / 1e9)


def bulk_enqueue(stage: Stage, count: int) -> float:
    """Tasks per second of the peer's bulk call."""
    stage.clear()
    return count / stage.enqueue("noop", count)


def steps(stage: Stage, count: int) -> float:
    """Durable steps per second, over tasks of five steps each."""
    tasks_per_second = drain(stage, count, kind="steps")
    assert stage.peer.recorded_steps is not None
    if (recorded := stage.count(stage.peer.recorded_steps)) < count * STEPS_PER_TASK:
        raise PeerFailedError(f"only {recorded} steps are recorded")
    return tasks_per_second * STEPS_PER_TASK


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from the enqueue call to the first line of the handler."""

    p50: float
    p99: float


def latency(stage: Stage, count: int) -> Latency:
    """Single enqueues about 10 ms apart from another process, into an idle worker."""
    stage.clear()
    stage.settle()
    with crew(stage.environment, stage.url, "ping") as working:
        working.go()
        time.sleep(1.5)
        command(stage.environment, "ping", stage.url, str(count))
        working.wait_until_handled(count, 60.0)
        [report] = working.stop()
    milliseconds = [ns / 1e6 for ns in report["latencies_ns"]]
    cuts = quantiles(milliseconds, n=100, method="inclusive")
    return Latency(p50=cuts[49], p99=cuts[98])
