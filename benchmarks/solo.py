"""Measurements of Regente alone: an idle runner, a long history, memory, sleeping tasks."""

import time
from dataclasses import dataclass

from benchmarks.measurements import DRAIN_SECONDS, Stage, drain_backlog
from benchmarks.processes import cpu_seconds, crew, resident_kib

# A runner's start-up queries are excluded, and an idle server process reports with up to ten
# seconds delay.
REPORTING_SECONDS = 20.0
SLEEPERS = 5_000
SLEEPING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Idle:
    transactions_per_second: float
    cpu_percent: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident MiB of one runner after a tenth of its tasks and after all of them."""

    early: float
    late: float


def idle(stage: Stage, seconds: float) -> Idle:
    """Transactions and processor time of an idle runner."""
    stage.clear()
    stage.settle()
    with stage.postgres.without_autovacuum(), crew(stage.environment, stage.url, "noop") as working:
        working.go()
        time.sleep(REPORTING_SECONDS)
        [worker] = working.workers
        transactions, cpu, started = (
            stage.postgres.transactions(stage.database),
            cpu_seconds(worker.pid),
            time.monotonic(),
        )
        time.sleep(seconds)
        transactions = stage.postgres.transactions(stage.database) - transactions
        cpu, elapsed = cpu_seconds(worker.pid) - cpu, time.monotonic() - started
    return Idle(transactions / elapsed, 100 * cpu / elapsed)


def finish_many(stage: Stage, count: int) -> Memory:
    """Run that many tasks through one runner and leave them in the database."""
    stage.clear()
    stage.enqueue("noop", count)
    stage.settle()
    with crew(stage.environment, stage.url, "noop") as working:
        working.go()
        [worker] = working.workers
        working.wait_until_handled(count // 10, DRAIN_SECONDS)
        early = resident_kib(worker.pid)
        working.wait_until_handled(count, DRAIN_SECONDS)
        stage.wait_until_committed()
        late = resident_kib(worker.pid)
        stage.verify(working, count)
        working.stop()
    return Memory(early / 1024, late / 1024)


def drain_again(stage: Stage, count: int) -> float:
    """Tasks per second in a database with a history."""
    stage.enqueue("noop", count)
    return drain_backlog(stage, count, verify=False)


@dataclass(frozen=True, slots=True)
class Sleeping:
    """Transactions and updated rows per second for tasks that sleep."""

    transactions: float
    updates: float


def sleeping(stage: Stage, count: int = SLEEPERS) -> Sleeping:
    """Measure the database load of many tasks that sleep in one runner."""
    stage.clear()
    stage.enqueue("sleep", count)
    stage.settle()
    with crew(stage.environment, stage.url, "sleep") as working:
        working.go()
        working.wait_until_handled(count, DRAIN_SECONDS)
        time.sleep(REPORTING_SECONDS)
        server, database, started = stage.postgres, stage.database, time.monotonic()
        updates, transactions = server.updates(database), server.transactions(database)
        time.sleep(SLEEPING_SECONDS)
        transactions, updates = (
            server.transactions(database) - transactions,
            server.updates(database) - updates,
        )
        elapsed = time.monotonic() - started
    return Sleeping(transactions / elapsed, updates / elapsed)
