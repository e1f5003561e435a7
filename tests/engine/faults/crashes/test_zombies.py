"""A runner paused past its lease changes nothing and continues under a new id (F5; I2, I3)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from regente import Regente, Task
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.engine.faults.crashes import pipelines as _registered  # noqa: F401 - for the client
from tests.support.audit import audit
from tests.support.eventually import TIMEOUT_SECONDS, eventually, eventually_async
from tests.support.runner_process import RunnerProcess
from tests.support.running import runner_in
from tests.support.sinks import create_sink, sink_arrivals

Connection = psycopg.Connection[Any]
TASKS = 30


async def test_a_zombie_changes_nothing_and_continues_under_a_new_id(
    database_url: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5: I2, I3, I4, I6; the woken runner must not hang either."""
    monkeypatch.setenv("EXTERNAL_SINK", str(tmp_path / "external"))
    async with Regente(database_url, settings=settings) as app:
        with psycopg.connect(database_url, autocommit=True) as connection:
            create_sink(connection)
            await app.enqueue_many("crash.slow", [{} for _ in range(TASKS)])
            with RunnerProcess(
                database_url,
                "tests.engine.faults.crashes.pipelines",
                {"REGENTE_CONCURRENCY": str(TASKS)},
            ) as zombie:
                await asyncio.to_thread(
                    eventually, lambda: count(connection, "heartbeat_at > claimed_at") > TASKS / 2
                )
                zombie.send(signal.SIGSTOP)
                connection.execute(
                    "UPDATE regente.runners SET lease_until = regente.clock() - interval '1 second'"
                )
                async with runner_in(app):
                    # Frozen inside a transaction, it holds a task's row until the server ends its
                    # session after 30 s.
                    await asyncio.to_thread(
                        eventually,
                        lambda: count(connection, "status = 'completed'") == TASKS,
                        within_seconds=30 + TIMEOUT_SECONDS,
                    )
                    zombie.send(signal.SIGCONT)
                    await asyncio.to_thread(
                        eventually, lambda: tenures(connection, zombie.pid) == ["lost", "running"]
                    )
                    zombie.send(signal.SIGTERM)
                    assert await asyncio.to_thread(zombie.wait, 20) == 0, zombie.said()
            assert set(sink_arrivals(connection).values()) == {1}
            assert sum(sink_arrivals(connection).values()) == TASKS
            assert count(connection, "tries > 0") == 0
            assert audit(connection) == []


async def test_a_lease_lost_while_waiting_for_suspects_does_not_hang_the_runner(
    app: Regente, registry: Registry, database_url: str
) -> None:
    """I8: cancellation and event coincide; Python 3.11's `wait_for` would lose the cancellation."""

    @registry.pipeline("job")
    async def job(task: Task) -> None:
        """Never enqueued."""

    async with runner_in(app):
        await eventually_async(lambda: registered(app, 1))
        runner: Any = app._runner
        runner._suspects.set()
        runner._give_up_everything()
        await eventually_async(lambda: registered(app, 2))


async def registered(app: Regente, tenures: int) -> bool:
    return len(await app.runners(everyone=True)) == tenures


def count(connection: Connection, condition: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM regente.tasks WHERE {condition}").fetchone()
    assert row is not None
    return int(row[0])


def tenures(connection: Connection, pid: int) -> list[str]:
    rows = connection.execute(
        "SELECT status::text FROM regente.runners WHERE pid = %s ORDER BY started_at", (pid,)
    ).fetchall()
    return [status for (status,) in rows]
