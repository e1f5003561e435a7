"""The peers: their packages, how each proves that a task is done, and their settings."""

from dataclasses import dataclass
from enum import StrEnum


class Runtime(StrEnum):
    OURS = "ours"
    PYTHON = "python"
    NODE = "node"


class Store(StrEnum):
    POSTGRES = "postgres"
    REDIS = "redis"


@dataclass(frozen=True, slots=True)
class Peer:
    """A queue. `completed` and `unfinished` are SQL that counts tasks; None without a record."""

    name: str
    label: str
    runtime: Runtime
    module: str
    settings: str
    packages: tuple[str, ...] = ()
    store: Store = Store.POSTGRES
    unfinished: str = ""
    completed: str | None = None
    recorded_steps: str | None = None

    @property
    def has_steps(self) -> bool:
        return self.recorded_steps is not None


# Awa writes receipts and rolls them up into a counter later, together with the jobs.
AWA_RECEIPTS = (
    "SELECT coalesce((SELECT sum(completed_count) FROM awa.receipt_completion_batches), 0)"
    " + (SELECT count(*) FROM awa.done_entries)"
)

OURS = Peer(
    name="regente",
    label="Regente",
    runtime=Runtime.OURS,
    module="benchmarks.peers.regente",
    settings="psycopg 3, uvloop; concurrency 1,000; every task keeps its row, its fence and its "
    "audit events",
    # Each count uses its own index, so that it stays cheap beside a long history.
    unfinished="SELECT (SELECT count(*) FROM regente.tasks WHERE status = 'queued') "
    "+ (SELECT count(*) FROM regente.tasks WHERE status = 'running')",
    completed="SELECT count(*) FROM regente.tasks WHERE status = 'completed'",
    recorded_steps="SELECT count(*) FROM regente.steps",
)

PEERS = (
    OURS,
    Peer(
        name="pgqueuer",
        label="PgQueuer",
        runtime=Runtime.PYTHON,
        module="benchmarks.peers.pgqueuer",
        packages=("pgqueuer[asyncpg]",),
        settings="asyncpg, uvloop, batches of 500, 2 queue managers, its recommended autovacuum; "
        "finished jobs move to a log",
        unfinished="SELECT count(*) FROM pgqueuer",
        completed="SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'",
    ),
    Peer(
        name="graphile",
        label="Graphile Worker",
        runtime=Runtime.NODE,
        module="graphile.mjs",
        packages=("graphile-worker",),
        settings="localQueue 1,000, completeJobBatchDelay 0, 24 concurrent jobs; finished jobs are "
        "deleted, no history",
        unfinished="SELECT count(*) FROM graphile_worker._private_jobs",
    ),
    Peer(
        name="procrastinate",
        label="Procrastinate",
        runtime=Runtime.PYTHON,
        module="benchmarks.peers.procrastinate",
        packages=("procrastinate", "psycopg[binary]", "uvloop"),
        settings="psycopg 3 (binary), uvloop, concurrency 20, LISTEN/NOTIFY",
        unfinished="SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
        completed="SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
    ),
    Peer(
        name="dbos",
        label="DBOS",
        runtime=Runtime.PYTHON,
        module="benchmarks.peers.dbos",
        packages=("dbos",),
        settings="worker concurrency 100, 8 executor threads, queue "
        "polled every 10 ms instead of 1 "
        "s",
        unfinished="SELECT count(*) FROM dbos.workflow_status WHERE "
        "status IN ('ENQUEUED', 'PENDING', "
        "'DELAYED')",
        completed="SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'",
        recorded_steps="SELECT count(*) FROM dbos.operation_outputs",
    ),
    Peer(
        name="absurd",
        label="Absurd",
        runtime=Runtime.PYTHON,
        module="benchmarks.peers.absurd",
        packages=("absurd-sdk", "absurdctl", "uvloop"),
        settings="4 workers (8 for steps) with a connection each, claims of 25, polled every 10 ms "
        "instead of 250 ms",
        unfinished="SELECT count(*) FROM absurd.t_default WHERE state <> 'completed'",
        completed="SELECT count(*) FROM absurd.t_default WHERE state = 'completed'",
        recorded_steps="SELECT count(*) FROM absurd.c_default",
    ),
    Peer(
        name="awa",
        label="Awa",
        runtime=Runtime.PYTHON,
        module="benchmarks.peers.awa",
        packages=("awa-pg",),
        settings="Rust core, queue storage, 1,000 async workers; "
        "finished jobs are rolled up into a "
        "counter",
        unfinished=f"SELECT (SELECT count(*) FROM awa.ready_entries) - ({AWA_RECEIPTS})",
        completed=f"SELECT ({AWA_RECEIPTS}) + "
        "(SELECT coalesce(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups)",
    ),
    Peer(
        name="celery",
        label="Celery + Redis",
        runtime=Runtime.PYTHON,
        module="benchmarks.peers.celery",
        packages=("celery[redis]",),
        store=Store.REDIS,
        settings="solo pool, prefetch 128, acks_late, no results; a Redis crash loses what came "
        "after the last snapshot",
    ),
)
