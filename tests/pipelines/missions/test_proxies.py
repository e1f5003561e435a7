"""Proxies: blame, deactivation after three failures, and a failure of most of them at once."""

from __future__ import annotations

from regente import Regente
from tests.pipelines.missions.conftest import (
    MISSION,
    conducting,
    config,
    events_of,
    finished,
    rows,
    run_one,
    until,
)
from tests.pipelines.missions.test_sessions import session
from tests.support.peers import ScriptedWorker, ScriptedWriter


async def events_named(app: Regente, name: str) -> list[dict[str, object]]:
    return [
        row["details"]
        for row in await rows(
            app, "SELECT details FROM events WHERE event = %(n)s ORDER BY id", n=name
        )
    ]


async def test_three_failures_deactivate_a_proxy_and_reactivation_resets_them(
    app: Regente,
) -> None:
    """O4: `fail_count` ≥ 3 → inactive, with an event; reactivation resets the count."""
    worker = ScriptedWorker()
    worker.session_script = [session("stuck") for _ in range(3)]
    async with conducting(app, worker, ScriptedWriter(), proxies=1):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        proxy = await until(app, "SELECT id, fail_count FROM proxies WHERE NOT active")
        assert proxy["fail_count"] == 3
        assert (await app.missions.get(mission_id)).status == "queued"
        await app.fleet.set_active("proxy", proxy["id"], True)
        mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    (gone,) = await events_named(app, "proxy_deactivated")
    assert gone["proxy_name"] == "proxy-1"
    assert await rows(app, "SELECT FROM proxies WHERE active AND fail_count = 0")


@config(polling_session=0.02, error_backoff=0.005)
async def test_when_most_proxies_fail_none_is_deactivated_and_one_alert_is_raised(
    app: Regente,
) -> None:
    """O4, F18: an outage of the target does not empty the pool; a probe ends the alert."""
    worker = ScriptedWorker()
    worker.session_script = [session("disconnected") for _ in range(8)]
    async with conducting(app, worker, ScriptedWriter(), proxies=3):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id)
        assert (mission.status, mission.retry_count) == ("completed", 0)
        found = await rows(app, "SELECT active, fail_count FROM proxies")
        assert all(row["active"] for row in found)
        assert sum(row["fail_count"] for row in found) == 8
        assert await rows(app, "SELECT FROM settings WHERE key = 'proxy_breaker'") == []
        await until(
            app, "SELECT FROM orchestrator, workers WHERE state = 'closed' AND status = 'idle'"
        )
        # Afterwards a proxy that fails alone is judged alone.
        await rows(app, "UPDATE proxies SET fail_count = 2")
        worker.session_script = [session("disconnected")]
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        assert (await finished(app, mission_id)).status == "completed"
    assert len(await events_named(app, "proxy_breaker_opened")) == 1
    assert len(await events_named(app, "proxy_breaker_closed")) == 1
    assert len(await rows(app, "SELECT FROM proxies WHERE NOT active")) == 1


async def test_a_proxy_is_charged_for_its_own_failures_and_not_for_the_targets(
    app: Regente,
) -> None:
    """O4, O15: blame before any counter moves."""
    worker = ScriptedWorker()
    worker.job_script = [
        [{"status": "failed", "problem": {"cause": cause, "message": f"spoiled by the {cause}"}}]
        for cause in ("proxy", "blocked")
    ]
    mission = await run_one(app, worker, ScriptedWriter(), proxies=3)
    assert (mission.status, mission.retry_count) == ("completed", 2)
    assert [row["n"] for row in await rows(app, "SELECT sum(fail_count) AS n FROM proxies")] == [1]
    servers = [proxy["server"] for proxy in worker.proxies]
    assert servers[0] != servers[1] != servers[2]
    failed = [
        details for name, details in await events_of(app, mission.id) if name == "scrape_failed"
    ]
    assert [details["error_message"] for details in failed] == [
        "spoiled by the proxy",
        "spoiled by the blocked",
    ]


async def test_a_mission_that_avoids_a_proxy_gets_a_session_on_another(
    app: Regente,
) -> None:
    """O4, O6: its worker changes the proxy when another one is free."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    worker.gate.clear()
    async with conducting(app, worker, writer, proxies=1):
        (first,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        (second,) = await app.missions.create([MISSION], queue=True)
        await rows(
            app,
            "UPDATE mission_runs SET avoid_proxy_id = (SELECT id FROM proxies) WHERE "
            "mission_id = %(id)s",
            id=second,
        )
        await app.fleet.add_proxy("another", "proxy.example.com", 9000)
        worker.gate.set()
        await finished(app, first)
        assert (await finished(app, second)).proxy_used == "another"
    assert dict(await events_of(app, second))["proxy_rotated"] == {
        "old_proxy": "proxy-1",
        "new_proxy": "another",
        "reason": None,
    }
