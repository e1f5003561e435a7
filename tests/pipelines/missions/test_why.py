"""One answer to "why is it not running?", for every reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from regente import Regente
from regente.engine.models import Why
from regente.pipelines.missions.why import explain_waiting
from tests.pipelines.missions.conftest import MISSION, conducting, config, fleet_of, rows, until
from tests.pipelines.missions.test_sessions import session
from tests.support.peers import ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in

FINE: dict[str, Any] = {
    "state": "open",
    "stopped_by": None,
    "checkpoint": "atribuido",
    "rate_limited": None,
    "not_before": None,
    "active_workers": 2,
    "ready_workers": 0,
    "scraping_workers": 2,
    "failing_workers": 0,
    "active_proxies": 3,
    "free_proxies": 1,
    "active_writers": 1,
    "runners": 1,
    "breaker": False,
    "paused": False,
    "ahead": 4,
    "worker_name": None,
}


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({}, "WAITS_FOR_WORKER", "2 of 2 workers are busy, 0 ready; 4 missions are ahead"),
        ({"ahead": 10_001}, "WAITS_FOR_WORKER", "more than 10,000"),
        (
            {"rate_limited": True, "not_before": datetime(2025, 1, 2, 3, 4, tzinfo=UTC)},
            "RATE_LIMITED",
            "2025-01-02 03:04:00",
        ),
        ({"state": "closed"}, "STOPPED", "closed: start it"),
        ({"state": "draining", "stopped_by": "ana"}, "STOPPED", "ana stopped it"),
        ({"paused": True}, "PAUSED", "is paused"),
        ({"runners": 0}, "NO_RUNNER", "No runner"),
        ({"active_workers": 0}, "NO_WORKER", "No worker"),
        ({"active_proxies": 0}, "NO_PROXY", "No proxy"),
        ({"breaker": True}, "PROXIES_FAIL", "Most proxies fail"),
        ({"free_proxies": 0}, "NO_FREE_PROXY", "All 3 proxies are in use"),
        ({"failing_workers": 2}, "WORKERS_FAIL", "All 2 active workers fail"),
    ],
)
def test_each_reason_has_its_code_and_its_sentence(
    change: dict[str, Any], code: str, says: str
) -> None:
    """O2, O19: what a held mission waits for."""
    found = explain_waiting("queued", FINE | change, Why(code="HELD", summary="", details={}))
    assert found.code == code
    assert says in found.summary


async def test_the_answer_follows_the_state(app: Regente) -> None:
    """O2, O6: one mission through all reasons."""
    worker = ScriptedWorker()
    worker.gate.clear()
    await app.missions.set("auto_start", False)
    (mission_id,) = await app.missions.create([MISSION])

    async def code() -> str:
        return (await app.missions.why(mission_id)).code

    assert await code() == "DRAFT"
    await app.missions.queue([mission_id])
    assert await code() == "STOPPED"
    await app.missions.start()
    assert await code() == "NO_RUNNER"
    await app.pause("missions")
    assert await code() == "PAUSED"
    await app.resume("missions")
    async with runner_in(app):
        await until(app, "SELECT FROM runners WHERE status = 'running'")
        assert await code() == "NO_WORKER"
        async with fleet_of(app, worker, ScriptedWriter(), proxies=0):
            assert await code() == "NO_PROXY"
            await app.fleet.add_proxy("p", "proxy.example.com", 80)
            await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
            assert await code() == "RUNNING"
            (second,) = await app.missions.create([MISSION], queue=False)
            await app.missions.queue([second])
            assert (await app.missions.why(second)).code == "NO_FREE_PROXY"
            worker.gate.set()
            await until(app, "SELECT FROM missions WHERE status = 'completed' HAVING count(*) = 2")
            assert await code() == "COMPLETED"


@config(error_backoff=30.0)
async def test_workers_that_fail_are_the_reason(app: Regente) -> None:
    """O6."""
    worker = ScriptedWorker()
    worker.session_script = [session("terminated")]
    async with conducting(app, worker, proxies=2):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM workers WHERE status = 'error'")
        assert (await app.missions.why(mission_id)).code == "WORKERS_FAIL"
        assert await rows(app, "SELECT FROM proxies WHERE in_use_by_worker_id IS NOT NULL") == []
