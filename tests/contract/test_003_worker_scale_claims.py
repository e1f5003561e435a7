"""The document 003-worker-scale-claims.md, section by section.

Its worker is our runner, its job our task. `regente.queue_jobs` has the columns of its table.
Where we do something else, docs/deviations.md says why (Runner scale).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from regente import Fatal, Regente, Retry, Transient
from regente.engine.models import WorkerMetrics
from regente.engine.pipeline import Registry
from regente.engine.queries import query
from regente.engine.task import Task
from regente.engine.watchdog.reaper import Reaper
from regente.logs import configure_logs
from regente.settings import Settings
from tests.engine.helpers import Clock, Sql, SqlRunner, column, many, one, running, until


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


def job(sql: Sql, task_id: int) -> dict[str, Any]:
    return one(sql, "SELECT * FROM regente.queue_jobs WHERE id = %s", task_id)


# 1. Lock and heartbeat fields


async def test_1_a_job_shows_its_lock_and_heartbeat(app: Regente, sql: Sql) -> None:
    """§1, S1: lockedBy, lockedAt, lockExpiresAt, lastHeartbeatAt, processingStartedAt."""
    app.registry.declare("p")
    task_id = await app.enqueue("p", {})
    fields = (
        "locked_by",
        "locked_at",
        "lock_expires_at",
        "last_heartbeat_at",
        "processing_started_at",
    )
    before = job(sql, task_id)
    assert (before["status"], [before[name] for name in fields]) == ("pending", [None] * 5)
    SqlRunner.register(sql, ["p"]).claim()
    locked = job(sql, task_id)
    assert (locked["status"], locked["type"], locked["locked_by"]) == (
        "processing",
        "p",
        "sql-runner",
    )
    assert None not in [locked[name] for name in fields]
    assert locked["lock_expires_at"] > locked["locked_at"]


def test_1_the_lock_lasts_60_s_and_beats_every_10_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """§1, S2: the defaults, and the two variables in milliseconds."""
    monkeypatch.delenv("JOB_LOCK_TTL_MS", raising=False)
    lease = Settings().runner_config().lease
    assert (lease.ttl_seconds, lease.renew_every_seconds) == (60.0, 10.0)
    monkeypatch.setenv("JOB_LOCK_TTL_MS", "30000")
    monkeypatch.setenv("JOB_HEARTBEAT_INTERVAL_MS", "5000")
    lease = Settings().runner_config().lease
    assert (lease.ttl_seconds, lease.renew_every_seconds) == (30.0, 5.0)


# 2. Atomic claim


async def test_2_a_claim_is_one_update_that_takes_a_batch_oldest_first(
    app: Regente, sql: Sql
) -> None:
    """§2, S3: UPDATE … RETURNING with ORDER BY age and LIMIT; the batch size is respected."""
    statement = " ".join(query("claim").split())
    assert statement.count("UPDATE regente.tasks SET status = 'running'") == 1
    assert "ORDER BY t.run_at, t.id LIMIT" in statement
    app.registry.declare("p")
    ids = await app.enqueue_many("p", [{}] * 5)
    runner = SqlRunner.register(sql, ["p"])
    assert sorted(runner.claim(3)) == ids[:3]
    assert sorted(runner.claim(3)) == ids[3:]


async def test_2_two_workers_never_claim_the_same_job(app: Regente, sql: Sql) -> None:
    """§2, S3."""
    app.registry.declare("p")
    ids = await app.enqueue_many("p", [{}] * 20)
    first, second = SqlRunner.register(sql, ["p"]), SqlRunner.register(sql, ["p"])
    claimed = [task_id for _ in range(5) for one in (first, second) for task_id in one.claim(2)]
    assert sorted(claimed) == ids


async def test_2_the_age_of_a_job_is_that_of_its_first_time(
    app: Regente, registry: Registry, sql: Sql, clock: Clock
) -> None:
    """§2, S3: `ORDER BY created_at`; a retry that is due is not overtaken by jobs that waited
    behind it. Deviation: of two such retries the one that is due first comes first."""
    app.registry.declare("p")
    old, *_ = await app.enqueue_many("p", [{}] * 3)
    runner = SqlRunner.register(sql, ["p"])
    assert runner.claim(1) == [old]
    sql.execute(
        "UPDATE regente.tasks SET status = 'queued', runner_id = NULL, "
        "run_at = regente.clock() + interval '3 seconds' WHERE id = %s",
        (old,),
    )
    clock.advance(seconds=4)
    assert runner.claim(1) == [old]


# 3. Heartbeat and recovery


async def test_3_the_heartbeat_extends_the_lock(app: Regente, sql: Sql, clock: Clock) -> None:
    """§3, S2. Deviation: one lease for all jobs of a worker."""
    app.registry.declare("p")
    task_id = await app.enqueue("p", {})
    runner = SqlRunner.register(sql, ["p"])
    runner.claim()
    before = job(sql, task_id)
    clock.advance(seconds=10)
    assert runner.renew() == [runner.id]
    after = job(sql, task_id)
    assert (after["lock_expires_at"] - before["lock_expires_at"]).total_seconds() >= 10
    assert after["last_heartbeat_at"] > before["last_heartbeat_at"]


async def test_3_expired_locks_go_back_to_pending_or_to_the_dead_letters(
    app: Regente, sql: Sql, clock: Clock
) -> None:
    """§3, S4. Deviation: crashes are counted apart from attempts, and the third is the last."""
    app.registry.declare("p")
    task_id = await app.enqueue("p", {})
    alive, reaper = SqlRunner.register(sql, ["other"]), Reaper(app.database, 60, 3, lambda _: None)
    for crash in (1, 2, 3):
        dead = SqlRunner.register(sql, ["p"])
        assert (dead.claim() if crash < 3 else dead.claim_suspect()) == [task_id]
        clock.advance_beside(alive, seconds=61)
        await reaper.run_once()
        found = job(sql, task_id)
        assert (found["status"], found["locked_by"]) == (
            "failed" if crash == 3 else "pending",
            None,
        )


def test_3_recovery_runs_at_least_every_minute() -> None:
    """§3, S4. Deviation: every ten seconds, so that a lock is recovered within its TTL and about
    ten seconds, not within its TTL and a minute."""
    config = Settings().runner_config().watchdog
    assert config.sweep_every_seconds == 10.0
    assert config.sweep_every_seconds <= 60.0


# 4. Idempotence


async def test_4_the_lock_is_cleared_at_every_end(app: Regente, registry: Registry) -> None:
    """§4, S5: completed with `processedAt`; a failure counts an attempt, then pending or failed."""
    attempts: list[int] = []

    @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01))
    async def run(task: Task[dict[str, Any]]) -> None:
        attempts.append(task.attempt)
        if task.args.get("fail"):
            raise Transient("no")

    done, failed = await app.enqueue_many("p", [{}, {"fail": True}])
    await app.run(until_idle=True)
    with psycopg.connect(app.database.url, row_factory=dict_row) as connection:
        rows = {task_id: job(connection, task_id) for task_id in (done, failed)}
    assert {rows[done]["status"], rows[failed]["status"]} == {"completed", "failed"}
    assert rows[done]["processed_at"] is not None
    assert rows[failed]["attempts"] == rows[failed]["max_attempts"] == 2
    assert [row["locked_by"] or row["lock_expires_at"] for row in rows.values()] == [None, None]


async def test_4_a_key_or_a_content_hash_makes_a_job_once(app: Regente) -> None:
    """§4, S5: dedupe before side effects; embeddings use the hash of the content."""
    app.registry.declare("p")
    assert await app.enqueue("p", {"n": 1}, key="k") == await app.enqueue("p", {"n": 2}, key="k")


# 5. Observability


async def test_5_the_metrics_of_a_worker(app: Regente, registry: Registry) -> None:
    """§5, S6: `getWorkerMetrics()`, also at GET /api/runners/{id}/metrics."""

    @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01))
    async def run(task: Task[dict[str, Any]]) -> None:
        if task.args.get("fail"):
            raise Fatal("no")
        if task.args.get("again") and task.attempt == 1:
            raise Transient("once")

    await app.enqueue_many("p", [{}, {}, {"fail": True}, {"again": True}])
    await app.run(until_idle=True, name="worker-1")
    (runner,) = await app.runners(everyone=True)
    metrics = WorkerMetrics.of(runner).model_dump()
    mean = metrics.pop("avgJobDurationMs")
    assert metrics == {
        "workerId": "worker-1",
        "jobsClaimed": 5,
        "jobsCompleted": 3,
        "jobsFailed": 1,
        "jobsRetried": 1,
        "jobsRecovered": 0,
        "stuckJobCount": 0,
    }
    assert mean is not None


async def test_5_log_lines_always_name_worker_job_type_attempts_status_and_duration(
    app: Regente, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    """§5, S7: structured, beside our own names."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        """A job that ends at once."""

    configure_logs(log_format="json", fields={"runner": "worker-1"})
    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True, name="worker-1")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (line,) = [line for line in lines if line.get("jobId") == task_id]
    assert {"workerId", "jobId", "jobType", "attempts", "status", "durationMs"} <= line.keys()
    assert (line["workerId"], line["jobType"], line["attempts"], line["status"]) == (
        "worker-1",
        "p",
        1,
        "completed",
    )
    assert line["durationMs"] >= 0


# Examples of use


@pytest.mark.parametrize("named", ["WORKER_ID", "--name"])
async def test_examples_a_worker_is_named(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples 1, S1: `WORKER_ID=worker-1`. tests/acceptance/test_run.py starts the process."""
    import typer

    from regente.cli import run as module

    root = typer.Typer()
    module.add_to(root)
    command = typer.main.get_command(root)
    if named == "WORKER_ID":
        monkeypatch.setenv("WORKER_ID", "worker-1")
    arguments = [] if named == "WORKER_ID" else ["--name", "worker-1"]
    assert command.make_context("run", arguments).params["name"] == "worker-1"


async def test_examples_100_jobs_and_3_workers_make_exactly_100_completions(
    app: Regente, registry: Registry, sql: Sql, settings: Settings, database_url: str
) -> None:
    """ "Como provar que não duplica", S8. With processes that are killed:
    tests/pipelines/embeddings/faults/test_runners.py; at 100,000: `make chaos`."""
    started: list[int] = []

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        started.append(task.id)
        await asyncio.sleep(0)

    ids = await app.enqueue_many("p", [{}] * 100)
    async with (
        Regente(database_url, settings=settings, pipelines=registry) as second,
        Regente(database_url, settings=settings, pipelines=registry) as third,
        running(app, concurrency=5),
        running(second, concurrency=5),
        running(third, concurrency=5),
    ):
        done = "SELECT count(*) FROM regente.queue_jobs WHERE status = 'completed'"
        await until(lambda: one(sql, done)["count"] == 100)
    assert sorted(started) == ids
    assert column(sql, "SELECT DISTINCT attempt FROM regente.tasks") == [1]
    assert len(many(sql, "SELECT FROM regente.events WHERE event = 'task_completed'")) == 100


@pytest.fixture
def clock(sql: Sql) -> Clock:
    return Clock(sql)
