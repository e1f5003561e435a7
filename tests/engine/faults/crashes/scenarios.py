"""One scenario per crash point: what to enqueue, how to get there, what holds afterwards."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.support.eventually import eventually
from tests.support.runner_process import RunnerProcess

Connection = psycopg.Connection[Any]
Prepare = Callable[[Connection], None]
Provoke = Callable[[Connection, RunnerProcess], None]


def nothing(connection: Connection) -> None:
    """Most scenarios need no preparation."""


def wait(connection: Connection, runner: RunnerProcess) -> None:
    """Most runners reach their crash point without help."""


@dataclass(frozen=True)
class Scenario:
    pipeline: str
    count: int = 3
    passage: int = 1
    prepare: Prepare = nothing
    provoke: Provoke = wait
    batch: bool = True
    lease_ms: int = 1000
    children: int = 0  # tasks that these enqueue
    crashes: int = 1  # deaths of a runner that a task may meet on the way
    tries: int = 0  # attempts that fail by the task's own fault, crash or no crash
    stored: dict[str, int] = field(
        default_factory=dict
    )  # database effects that must be there, by step
    external: tuple[str, ...] = ()  # steps with an external effect


def leave_orphans(connection: Connection) -> None:
    """A runner that died while it held every task."""
    runner_id = connection.execute(
        "INSERT INTO regente.runners (name, host, pid, version, pipelines, concurrency, "
        "lease_until)"
        " VALUES ('dead', 'here', 1, '0', '{}', 3, regente.clock() - interval '1 second') "
        "RETURNING id"
    ).fetchone()
    assert runner_id is not None
    claimed = connection.execute(
        "UPDATE regente.tasks SET status = 'running', attempt = 1, runner_id = %s, "
        "claimed_at = regente.clock(),"
        " started_at = regente.clock(), heartbeat_at = regente.clock() RETURNING id",
        runner_id,
    ).fetchall()
    for (task_id,) in claimed:
        connection.execute(
            "INSERT INTO regente.events (task_id, batch_id, runner_id, attempt, event)"
            " SELECT id, batch_id, runner_id, 1, 'task_claimed' FROM regente.tasks WHERE id = %s",
            (task_id,),
        )


def send_signals(connection: Connection) -> None:
    """Two for each task: a crash between them must not change which one is received."""
    for payload in ("1", "2"):
        connection.execute("SELECT regente.signal(id, 'go', %s) FROM regente.tasks", (payload,))


def make_schedule_due(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO regente.schedules (name, pipeline, cron, next_at)"
        " VALUES ('yearly', 'crash.work', '0 0 1 1 *', regente.clock() - interval '1 second')"
    )


def drain(connection: Connection, runner: RunnerProcess) -> None:
    eventually(lambda: _count(connection, "checkpoint = 'UNDER_WAY'") == 3)
    runner.send(signal.SIGTERM)


def lock_running_rows(connection: Connection, runner: RunnerProcess) -> None:
    """Another session locks the tasks' rows until their writes are set aside."""
    eventually(lambda: _count(connection, "status = 'running'") == 3)
    with psycopg.connect(connection.info.dsn) as holder:
        holder.execute("SELECT FROM regente.tasks FOR UPDATE")
        waiting = "FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        ours = (holder.info.backend_pid,)
        eventually(lambda: connection.execute(f"SELECT {waiting}", ours).rowcount > 0)
        eventually(lambda: connection.execute(f"SELECT {waiting}", ours).rowcount == 0)


def _count(connection: Connection, condition: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM regente.tasks WHERE {condition}").fetchone()
    assert row is not None
    return int(row[0])


WORK: dict[str, Any] = {"pipeline": "crash.work", "stored": {"STORE": 1}, "external": ("FETCH",)}
LANED: dict[str, Any] = {**WORK, "pipeline": "crash.laned", "count": 5}
CALLING: dict[str, Any] = {**WORK, "pipeline": "crash.calling"}
PARENT: dict[str, Any] = {
    "pipeline": "crash.parent",
    "count": 1,
    "children": 3,
    "stored": {"STORE": 1},
}

SPAWNING: dict[str, Any] = {**PARENT, "pipeline": "crash.spawning"}

SCENARIOS: dict[str, Scenario] = {
    "enqueue.before_commit": Scenario(**PARENT),
    "enqueue.committed": Scenario(**PARENT),
    "change.committed": Scenario(**{**PARENT, "pipeline": "crash.hurrying", "children": 1}),
    "register.committed": Scenario(**WORK),
    # A second is short for a renewal on a busy machine: the lease would be lost before.
    "lease.renewed": Scenario("crash.long", lease_ms=4000),
    "claim.committed": Scenario(**WORK),
    "claim.lanes_committed": Scenario(**LANED),
    "lanes.before_report": Scenario(**LANED),
    "lanes.entered": Scenario(**CALLING),
    "lanes.before_leave": Scenario(**CALLING),
    "mark.committed": Scenario(**WORK),
    "intent.committed": Scenario("crash.paying", stored={"STORE": 1}, external=("PAY",)),
    "step.before_record": Scenario(**WORK),
    "step.recorded": Scenario(**WORK, passage=2),
    "transaction.before_commit": Scenario(**WORK),
    "transaction.committed": Scenario(**WORK, passage=2),
    "sleep.committed": Scenario("crash.sleepy", stored={"AFTER": 1}, external=("BEFORE",)),
    "signal.received": Scenario("crash.signaled", stored={"STORE": 1}, prepare=send_signals),
    "children.spawned": Scenario(**SPAWNING),
    "children.recorded": Scenario(**SPAWNING),
    "finish.before": Scenario(**WORK),
    "finish.committed": Scenario(**WORK),
    "settle.before": Scenario("crash.throttled", stored={"STORE": 1}, external=("TOLD",)),
    "settle.committed": Scenario("crash.flaky", tries=1),
    "locked.committed": Scenario("crash.slow", stored={"STORE": 1}, provoke=lock_running_rows),
    "stall.settled": Scenario("crash.silent", count=1, tries=1),
    "lost.committed": Scenario(**WORK, prepare=leave_orphans, crashes=2),
    "reap.committed": Scenario(**WORK, prepare=leave_orphans, crashes=2),
    "schedule.before_commit": Scenario(
        **WORK, count=0, children=1, batch=False, prepare=make_schedule_due
    ),
    "schedule.fired": Scenario(**WORK, count=0, children=1, batch=False, prepare=make_schedule_due),
    "batch.closed": Scenario(**WORK),
    "drain.handed_back": Scenario("crash.long", provoke=drain),
}
