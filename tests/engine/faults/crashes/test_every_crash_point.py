"""Every crash point × SIGKILL × restart: nothing changes in the end (F2; I1, I2, I5, I6, I7,
I9)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from regente import Regente
from regente.engine.crashpoints import CRASH_POINTS
from regente.settings import Settings
from tests.engine.faults.crashes import pipelines as _registered  # noqa: F401 - for the client
from tests.engine.faults.crashes.scenarios import SCENARIOS, Connection, Scenario
from tests.support.audit import audit
from tests.support.current_app import set_application
from tests.support.eventually import eventually, eventually_async
from tests.support.runner_process import ROOT, RunnerProcess
from tests.support.running import runner_in
from tests.support.sinks import (
    ExternalSink,
    create_sink,
    results_that_were_not_committed,
    sink_arrivals,
)

MODULE = "tests.engine.faults.crashes.pipelines"
MIGRATION_POINT = "migrate.statement"


def test_every_crash_point_has_a_scenario() -> None:
    """F2: each new crash point needs a scenario."""
    assert set(CRASH_POINTS) - {MIGRATION_POINT} == set(SCENARIOS)


@pytest.mark.parametrize("point", sorted(SCENARIOS))
async def test_a_crash_at_a_crash_point_loses_and_doubles_nothing(
    point: str,
    database_url: str,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F2: I1, I2, I5, I6, I7, I9 after a SIGKILL at this crash point and a restart."""
    scenario = SCENARIOS[point]
    external = ExternalSink(tmp_path / "external")
    monkeypatch.setenv("EXTERNAL_SINK", str(external.path))
    async with Regente(database_url, settings=settings) as app:
        set_application(app)
        with psycopg.connect(database_url, autocommit=True) as connection:
            create_sink(connection)
            await enqueue(app, scenario)
            scenario.prepare(connection)
            with RunnerProcess(
                database_url, MODULE, {"REGENTE_CRASH_POINT": f"{point}:{scenario.passage}"}
            ) as crashing:
                scenario.provoke(connection, crashing)
                assert await asyncio.to_thread(crashing.wait) == -signal.SIGKILL, crashing.said()
            external_before = Counter(key for key, _ in external.arrivals())
            expire_leases(connection)
            async with runner_in(app):
                await all_end(app, connection, scenario)
            check_tasks(connection, scenario)
            check_effects(connection, scenario, external, external_before)
            assert audit(connection) == []


@pytest.mark.parametrize("passage", [1, 15])
def test_a_migration_killed_between_statements_is_repeated_as_a_whole(
    passage: int, server_url: str, tmp_path: Path
) -> None:
    """F2, F17: the kill leaves nothing of the migration; a second run applies all of it."""
    name = f"regente_migration_{passage}"
    url = psycopg.conninfo.make_conninfo(server_url, dbname=name)
    program = (
        f"import asyncio, regente.app; asyncio.run(regente.app.prepare_schema({url!r}, "
        "upgrade=True))"
    )
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            armed = {
                "REGENTE_CRASH_POINT": f"{MIGRATION_POINT}:{passage}",
                "PYTHONPATH": str(ROOT / "src"),
            }
            killed = subprocess.run(
                [sys.executable, "-c", program],
                cwd=ROOT,
                env=armed,
                capture_output=True,
                check=False,
            )
            assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
            with psycopg.connect(url, autocommit=True) as connection:
                eventually(lambda: tables(connection) == {"migrations"})
                subprocess.run(
                    [sys.executable, "-c", program],
                    cwd=ROOT,
                    env=armed | {"REGENTE_CRASH_POINT": ""},
                    check=True,
                )
                assert {"tasks", "steps", "events", "batches"} <= tables(connection)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def enqueue(app: Regente, scenario: Scenario) -> None:
    batch = "all of it" if scenario.batch else None
    await app.enqueue_many(scenario.pipeline, [{} for _ in range(scenario.count)], batch=batch)


def expire_leases(connection: Connection) -> None:
    """Moves the leases' end into the past instead of waiting."""
    connection.execute(
        "UPDATE regente.runners SET lease_until = regente.clock() - interval '1 second' "
        "WHERE status < 'stopped'"
    )


async def all_end(app: Regente, connection: Connection, scenario: Scenario) -> None:
    """Wait until all tasks have ended; a person lets unknown calls be repeated."""

    async def ended() -> bool:
        for asked in await app.decisions():
            await app.resolve(asked.task_id, asked.step, retry=True)
        return await asyncio.to_thread(everything_ended, connection, scenario)

    await eventually_async(ended, within_seconds=60)


def everything_ended(connection: Connection, scenario: Scenario) -> bool:
    live = connection.execute(
        "SELECT count(*) FILTER (WHERE status < 'completed'), count(*) FROM regente.tasks"
    ).fetchone()
    open_batches = connection.execute(
        "SELECT count(*) FROM regente.batches WHERE status < 'completed'"
    ).fetchone()
    return live == (0, scenario.count + scenario.children) and open_batches == (0,)


def check_tasks(connection: Connection, scenario: Scenario) -> None:
    """I1 and I7: all completed, no try charged, and the crash counted at most once."""
    rows: list[Any] = connection.execute(
        "SELECT pipeline, status::text, tries, crashes FROM regente.tasks"
    ).fetchall()
    assert len(rows) == scenario.count + scenario.children
    for pipeline, status, tries, crashes in rows:
        assert status == "completed"
        assert tries == (scenario.tries if pipeline == scenario.pipeline else 0)
        assert crashes <= scenario.crashes
    schedules = connection.execute(
        "SELECT count(*) FROM regente.schedules WHERE last_task IS NULL"
    ).fetchone()
    assert schedules == (0,)


def check_effects(
    connection: Connection, scenario: Scenario, external: ExternalSink, before: Counter[str]
) -> None:
    """I2: database effects once; external ones at most once more than recorded, under one key."""
    doers = scenario.children or scenario.count
    arrivals = sink_arrivals(connection)
    assert set(arrivals.values()) <= {1}, arrivals
    assert results_that_were_not_committed(connection) == []
    told = connection.execute(
        "SELECT t.result ->> 'stored', k.id::text FROM regente.tasks t "
        "JOIN public.sink k ON k.task_id = t.id WHERE t.result ->> 'stored' IS NOT NULL"
    ).fetchall()
    assert all(stored == row_id for stored, row_id in told), told
    assert Counter(step for _, step in arrivals) == Counter(
        {step: doers * n for step, n in scenario.stored.items()}
    )
    total = Counter(key for key, _ in external.arrivals())
    assert len(total) == doers * len(scenario.external)
    for key, count in total.items():
        assert count <= 2, f"{key} arrived {count} times"
        assert count - before[key] <= 1


def tables(connection: Connection) -> set[str]:
    rows = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'regente'"
    ).fetchall()
    return {name for (name,) in rows}
