"""A runner frozen at any crash point past its lease delays no rescuer and does no harm (F2 × F5;
I1, I2, I3, I5, I6, I7, I8, I9)."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from regente import Regente
from regente.settings import Settings
from tests.engine.faults.crashes.scenarios import SCENARIOS, Connection
from tests.engine.faults.crashes.test_every_crash_point import (
    MODULE,
    all_end,
    check_effects,
    check_tasks,
    enqueue,
)
from tests.support.audit import audit
from tests.support.current_app import set_application
from tests.support.eventually import eventually
from tests.support.runner_process import RunnerProcess
from tests.support.running import runner_in
from tests.support.sinks import ExternalSink, create_sink


@pytest.mark.parametrize("point", sorted(SCENARIOS))
async def test_a_runner_frozen_at_a_crash_point_is_replaced_and_does_no_harm(
    point: str,
    database_url: str,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F2, F5: all tasks end while it is frozen; awake, it changes nothing and exits in order."""
    scenario = SCENARIOS[point]
    external = ExternalSink(tmp_path / "external")
    monkeypatch.setenv("EXTERNAL_SINK", str(external.path))
    armed = {
        "REGENTE_CRASH_POINT": f"{point}:{scenario.passage}",
        "REGENTE_CRASH_SIGNAL": "SIGSTOP",
        "JOB_LOCK_TTL_MS": str(scenario.lease_ms),
    }
    async with Regente(database_url, settings=settings) as app:
        set_application(app)
        with psycopg.connect(database_url, autocommit=True) as connection:
            create_sink(connection)
            await enqueue(app, scenario)
            scenario.prepare(connection)
            with RunnerProcess(database_url, MODULE, armed) as zombie:
                scenario.provoke(connection, zombie)
                await asyncio.to_thread(
                    eventually, lambda: is_frozen(zombie.pid), within_seconds=60
                )
                before = Counter(key for key, _ in external.arrivals())
                async with runner_in(app):
                    await all_end(app, connection, scenario)
                    woken_at = connection.execute("SELECT clock_timestamp()").fetchone()
                    zombie.send(signal.SIGCONT)
                    if scenario.provoke.__name__ != "drain":
                        await asyncio.to_thread(
                            eventually, lambda: is_back(connection, zombie.pid, woken_at)
                        )
                        zombie.send(signal.SIGTERM)
                    assert await asyncio.to_thread(zombie.wait) == 0, zombie.said()
            check_tasks(connection, scenario)
            check_effects(connection, scenario, external, before)
            assert audit(connection) == []


def is_frozen(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def is_back(connection: Connection, pid: int, woken_at: Any) -> bool:
    """The runner works again: under a new id, or under the old one if its lease was not taken."""
    found = connection.execute(
        "SELECT FROM regente.runners WHERE pid = %s AND status = 'running' AND heartbeat_at > %s",
        (pid, woken_at[0]),
    )
    return found.fetchone() is not None
