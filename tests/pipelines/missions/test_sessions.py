"""Sessions: each status of a worker at the start, while waiting, and during a mission."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from regente import Regente
from regente.engine.errors import InvalidInput
from tests.pipelines.missions.conftest import (
    MISSION,
    conducting,
    config,
    events_of,
    finished,
    fleet_of,
    rows,
    run_one,
    until,
)
from tests.support.eventually import eventually_async
from tests.support.peers import ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in

PROXY_FAULT = {"cause": "proxy", "message": "407 from the proxy"}
TARGET_FAULT = {"cause": "target", "message": "503 from the target"}


def session(*statuses: str, **more: Any) -> list[dict[str, Any]]:
    return [{"status": status} | more for status in statuses]


async def failures_of_sessions(app: Regente) -> list[dict[str, Any]]:
    return [
        row["details"]
        for row in await rows(
            app,
            "SELECT details FROM mission_logs WHERE event = 'session_failed' ORDER BY timestamp",
        )
    ]


async def test_a_session_is_waited_for_through_every_status_of_its_start(app: Regente) -> None:
    """O6: each status before `ready` is polled on; the payload is the contract's."""
    worker = ScriptedWorker()
    worker.session_script = [
        session("initializing", "connecting", "authenticating", "warming_up", "ready")
    ]
    mission = await run_one(app, worker, ScriptedWriter(), proxies=1)
    assert mission.status == "completed"
    assert worker.count("GET", "/session/status") >= 5
    assert worker.sent("POST", "/session")[0] == {
        "force_refresh": True,
        "proxy": {"server": "proxy.example.com:8000", "username": "user", "password": "a-password"},
    }
    ready = dict(await events_of(app, mission.id))["session_ready"]
    assert ready["duration_ms"] >= 200


@pytest.mark.parametrize(
    ("status", "code", "more", "strikes"),
    [
        ("stuck", "ERROR102", {}, 1),
        ("disconnected", "ERROR103", {}, 1),
        ("terminated", "ERROR100", {}, 0),
        ("scraping", "ERROR100", {}, 0),
        ("asleep", "ERROR100", {}, 0),
        ("stuck", "ERROR102", {"problem": TARGET_FAULT}, 0),
        ("terminated", "ERROR100", {"problem": PROXY_FAULT}, 1),
    ],
)
async def test_a_session_that_does_not_start_costs_no_mission_a_retry(
    app: Regente, status: str, code: str, more: dict[str, Any], strikes: int
) -> None:
    """O6, O15: `error`, pause, `idle`, another proxy; only a proxy's own fault counts."""
    worker = ScriptedWorker()
    worker.session_script = [session("connecting", status, **more)]
    mission = await run_one(app, worker, ScriptedWriter())
    assert (mission.status, mission.retry_count) == ("completed", 0)
    (failure,) = await failures_of_sessions(app)
    assert failure["error_code"] == code
    assert failure.keys() >= {"worker_id", "error_code", "proxy_name"}
    first, second = (proxy["server"] for proxy in worker.proxies)
    assert first != second
    counts = {
        row["name"]: row["fail_count"]
        for row in await rows(app, "SELECT name, fail_count FROM proxies")
    }
    assert counts[failure["proxy_name"]] == strikes
    assert sum(counts.values()) == strikes


@config(timeout_session=1.5)
async def test_a_session_that_is_not_ready_in_time_is_error101(app: Regente) -> None:
    """O6, O15: ended at the limit, the worker is told, the proxy blamed."""
    worker = ScriptedWorker()
    worker.session_script = [session("warming_up")]
    mission = await run_one(app, worker, ScriptedWriter())
    (failure,) = await failures_of_sessions(app)
    assert (mission.status, failure["error_code"], failure["blamed"]) == (
        "completed",
        "ERROR101",
        "proxy",
    )
    assert worker.count("DELETE", "/session") == 2
    assert await rows(
        app, "SELECT FROM proxies WHERE name = %(p)s AND fail_count = 1", p=failure["proxy_name"]
    )


@pytest.mark.parametrize(
    ("status", "code"),
    [("stuck", "ERROR102"), ("disconnected", "ERROR103"), ("terminated", "ERROR100")],
)
async def test_a_session_that_breaks_under_a_mission_costs_it_a_retry_through_another_proxy(
    app: Regente, status: str, code: str
) -> None:
    """O6, O15, O17: retried in the session phase on a new session; no failure of the proxy."""
    worker = ScriptedWorker()
    worker.session_script = [session("ready", status)]
    worker.job_script = [[{"status": "running", "ads_count": 1}]]
    mission = await run_one(app, worker, ScriptedWriter())
    assert (mission.status, mission.retry_count) == ("completed", 1)
    details = dict(await events_of(app, mission.id))
    assert details["retry_triggered"] == {"attempt": 1, "error_code": code, "phase": "session"}
    assert details["session_failed"].keys() >= {"worker_id", "error_code", "proxy_name"}
    rotated = details["proxy_rotated"]
    assert rotated["reason"] == code
    assert {rotated["old_proxy"], rotated["new_proxy"]} == {"proxy-1", "proxy-2"}
    assert await rows(app, "SELECT FROM proxies WHERE fail_count > 0") == []


@pytest.mark.parametrize(
    "status", ["stuck", "disconnected", "terminated", "scraping", "initializing"]
)
async def test_a_session_that_breaks_while_it_waits_is_replaced(app: Regente, status: str) -> None:
    """O6: an idle session is watched; no mission is charged, no proxy blamed."""
    worker = ScriptedWorker()
    worker.session_script = [session("ready", "ready", status)]
    async with fleet_of(app, worker, ScriptedWriter()):
        await app.pause("missions")
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        async with runner_in(app):
            await until(app, "SELECT FROM sessions WHERE ended_at IS NOT NULL")
            await until(app, "SELECT FROM workers WHERE status = 'ready'")
            await app.resume("missions")
            mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert await rows(app, "SELECT FROM proxies WHERE fail_count > 0") == []


async def test_after_session_limit_missions_the_session_ends_and_the_proxy_changes(
    app: Regente,
) -> None:
    """O6, O16, O4: a changed limit applies at once; the next session has another proxy."""
    worker = ScriptedWorker()
    await app.missions.set("session_limit", 2)
    async with conducting(app, worker, ScriptedWriter(), proxies=3):
        for mission_id in await app.missions.create([MISSION] * 4, queue=True):
            await finished(app, mission_id)
        await app.missions.set("session_limit", "1")
        for mission_id in await app.missions.create([MISSION] * 2, queue=True):
            await finished(app, mission_id)
    sessions = await rows(
        app, "SELECT missions, reason, proxy_name FROM sessions WHERE missions > 0 ORDER BY id"
    )
    assert [row["missions"] for row in sessions] in ([2, 2, 1, 1], [2, 1, 1, 1, 1])
    proxies = [
        row["proxy_name"] for row in await rows(app, "SELECT proxy_name FROM sessions ORDER BY id")
    ]
    assert all(one != other for one, other in itertools.pairwise(proxies))
    assert {row["reason"] for row in sessions} <= {"session_limit", "orchestrator_closed"}


async def test_an_invalid_setting_is_refused(app: Regente) -> None:
    """O16: clear errors; nothing is stored."""
    wrong: list[tuple[str, Any]] = [
        ("session_limit", 0),
        ("session_limit", "many"),
        ("session_limit", None),
        ("max_retries", -1),
        ("max_retries", 1.5),
        ("max_retries", True),
        ("auto_start", "maybe"),
        ("polling", 1),
    ]
    for key, value in wrong:
        with pytest.raises(InvalidInput, match=key):
            await app.missions.set(key, value)
    assert (
        await rows(
            app,
            "SELECT key FROM settings WHERE key = ANY (%(keys)s)",
            keys=[key for key, _ in wrong],
        )
        == []
    )


async def test_without_a_free_proxy_it_waits_and_logs_error501_once(app: Regente) -> None:
    """O6: not at every poll; the mission runs as soon as a proxy is free."""
    worker = ScriptedWorker()
    async with conducting(app, worker, ScriptedWriter(), proxies=0):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM mission_logs WHERE event = 'session_failed'")

        async def many_polls() -> bool:
            return (await app.missions.why(mission_id)).code == "NO_PROXY"

        await eventually_async(many_polls)
        await app.fleet.add_proxy("late", "proxy.example.com", 8080)
        mission = await finished(app, mission_id)
    (failure,) = await failures_of_sessions(app)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert (failure["error_code"], failure["proxy_name"]) == ("ERROR501", None)


async def test_a_worker_whose_session_failed_goes_through_error_and_rest_back_to_idle(
    app: Regente,
) -> None:
    """O3, O6: initializing → error → (pause, longer each time) → idle → initializing."""
    worker = ScriptedWorker()
    worker.session_script = [session("stuck"), session("stuck"), session("stuck")]
    async with fleet_of(app, worker, ScriptedWriter(), proxies=4):
        await rows(
            app,
            "CREATE TABLE seen (at bigserial, status worker_status, failures int, rest interval)",
        )
        await rows(app, WATCH_FUNCTION)
        await rows(app, WATCH_TRIGGER)
        async with runner_in(app):
            (mission_id,) = await app.missions.create([MISSION], queue=True)
            await finished(app, mission_id)
    seen = await rows(
        app, "SELECT status::text, failures, extract(epoch FROM rest) AS rest FROM seen ORDER BY at"
    )
    assert [row["status"] for row in seen][:11] == ["initializing", "error", "idle"] * 3 + [
        "initializing",
        "ready",
    ]
    errors = [row for row in seen if row["status"] == "error"]
    assert [row["failures"] for row in errors] == [1, 2, 3]
    assert [round(float(row["rest"]), 2) for row in errors] == [0.05, 0.1, 0.2]


WATCH_FUNCTION = """
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO regente.seen (status, failures, rest)
      VALUES (NEW.status, NEW.failures, NEW.rest_until - NEW.updated_at);
  RETURN NULL; END $$
"""
WATCH_TRIGGER = """
CREATE TRIGGER watch AFTER UPDATE OF status ON workers FOR EACH ROW WHEN (OLD.status <> NEW.status)
    EXECUTE FUNCTION watch()
"""
