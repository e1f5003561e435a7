"""Unexpected responses of workers and writers (9.3), on each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.responses import StreamingResponse

from regente import Regente
from regente.pipelines.missions.read_models import Mission
from tests.pipelines.missions.conftest import (
    MISSION,
    conducting,
    config,
    events_of,
    finished,
    fleet_of,
    names_of,
    rows,
    run_one,
    until,
)
from tests.support.eventually import eventually_async
from tests.support.peers import ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in

SESSION, STATUS, SCRAPE, JOB = (
    ("POST", "/session"),
    ("GET", "/session/status"),
    ("POST", "/scrape"),
    ("GET", "/scrape/.*"),
)
PROCESS, WRITER_JOB = ("POST", "/process"), ("GET", "/status/.*")


REFUSED_SESSIONS = [
    (SESSION, 400, "ERROR100"),
    (SESSION, 404, "ERROR100"),
    (SESSION, 413, "ERROR100"),
    (SESSION, 422, "ERROR100"),
    (SESSION, 500, "ERROR502"),
    (STATUS, 404, "ERROR100"),
    (STATUS, 422, "ERROR100"),
]


async def next_mission(app: Regente) -> Mission:
    (mission_id,) = await app.missions.create([MISSION], queue=True)
    return await finished(app, mission_id)


async def retries_of(app: Regente, mission: Mission) -> list[str]:
    return [
        details["error_code"]
        for name, details in await events_of(app, mission.id)
        if name == "retry_triggered"
    ]


async def test_a_refused_session_is_retried_without_a_charge(
    app: Regente,
) -> None:
    """O6, O15: a failed call blames the worker, not the mission, nor its only proxy."""
    worker = ScriptedWorker()
    async with conducting(app, worker, ScriptedWriter(), proxies=1):
        for call, status, _ in REFUSED_SESSIONS:
            await until(
                app, "SELECT FROM orchestrator, workers WHERE state = 'closed' AND status = 'idle'"
            )
            worker.fault(*call, status)
            mission = await next_mission(app)
            assert (mission.status, mission.retry_count) == ("completed", 0), (call, status)
            assert worker.spent, (call, status)
    failed = await rows(
        app, "SELECT details FROM mission_logs WHERE event = 'session_failed' ORDER BY timestamp"
    )
    assert [row["details"]["error_code"] for row in failed] == [
        code for *_, code in REFUSED_SESSIONS
    ]
    assert await rows(app, "SELECT FROM proxies WHERE fail_count > 0") == []


async def test_a_scrape_that_the_worker_refuses_costs_a_retry_only_when_it_is_about_the_mission(
    app: Regente,
) -> None:
    """O8, O15: 400, 413, 422 are ERROR200; 404 sends it back to the queue; 5xx is waited out."""
    worker = ScriptedWorker()
    cases = [
        (SCRAPE, 400, 1),
        (SCRAPE, 413, 1),
        (SCRAPE, 422, 1),
        (SCRAPE, 404, 0),
        (SCRAPE, 500, 0),
        (SCRAPE, 503, 0),
        (JOB, 400, 1),
        (JOB, 404, 0),
        (JOB, 500, 0),
    ]
    returned = "SELECT FROM events WHERE event = 'mission_returned' AND task_id = %(id)s"
    async with conducting(app, worker, ScriptedWriter(), proxies=3):
        for call, status, retries in cases:
            worker.fault(*call, status)
            mission = await next_mission(app)
            assert (mission.status, await retries_of(app, mission)) == (
                "completed",
                ["ERROR200"] * retries,
            ), (call, status)
            assert len(await rows(app, returned, id=mission.id)) == (status == 404), (call, status)
            assert worker.spent, (call, status)


async def test_a_writers_refusal_has_its_code_and_an_outage_is_waited_out(app: Regente) -> None:
    """O10, O15: what it says of the request costs a retry, what is wrong with itself does not."""
    writer = ScriptedWriter()
    cases = [
        (PROCESS, 400, "ERROR303"),
        (PROCESS, 404, None),
        (PROCESS, 413, "ERROR300"),
        (PROCESS, 422, "ERROR303"),
        (WRITER_JOB, 422, "ERROR303"),
        (PROCESS, 500, None),
        (WRITER_JOB, 503, None),
        (WRITER_JOB, 404, None),
    ]
    async with conducting(app, ScriptedWorker(), writer):
        for call, status, code in cases:
            writer.fault(*call, status)
            mission = await next_mission(app)
            expected = [] if code is None else [code]
            assert (mission.status, await retries_of(app, mission)) == ("completed", expected), (
                call,
                status,
            )
            assert writer.spent, (call, status)


@pytest.mark.parametrize("call", [SESSION, STATUS, SCRAPE, JOB])
async def test_a_worker_that_refuses_our_key_is_deactivated(
    app: Regente, call: tuple[str, str]
) -> None:
    """O15: 401: inactive with ERROR502 until reactivated; the mission goes to another worker."""
    bad, good = ScriptedWorker(), ScriptedWorker()
    bad.fault(*call, 401, times=1000)
    async with fleet_of(app, bad, ScriptedWriter(), proxies=3), runner_in(app):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        row = await until(
            app, "SELECT error_code FROM workers WHERE NOT active AND status = 'idle'"
        )
        assert row["error_code"] == "ERROR502"
        asked = bad.count(*call)
        async with fleet_of(app, good, proxies=0):
            mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count, mission.worker_name) == ("completed", 0, good.name)
    assert bad.count(*call) == asked == 1
    (told,) = await rows(app, "SELECT details FROM events WHERE event = 'worker_deactivated'")
    assert told["details"]["by"] == "regente"


@pytest.mark.parametrize("how", ["of the worker", "of the target"])
async def test_a_429_delays_a_mission_without_a_charge_and_frees_its_worker(
    app: Regente, how: str
) -> None:
    """O15: it waits as long as requested, shows so, and then runs."""
    worker = ScriptedWorker()
    if how == "of the worker":
        worker.fault(*SCRAPE, 429, retry_after="1")
    else:
        problem = {"cause": "throttled", "message": "slowly", "http_status": 429, "retry_after": 1}
        worker.job_script = [[{"status": "failed", "problem": problem}]]
    async with conducting(app, worker, ScriptedWriter()):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM events WHERE event = 'task_held'")
        assert (await app.missions.why(mission_id)).code == "RATE_LIMITED"
        (free,) = await rows(app, "SELECT status::text, current_mission_id FROM workers")
        assert free == {"status": "ready", "current_mission_id": None}
        assert (await app.missions.get(mission_id)).status == "queued"
        mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert worker.count("POST", "/session") == 1
    assert await rows(app, "SELECT FROM proxies WHERE fail_count > 0") == []
    assert await rows(app, "SELECT FROM mission_runs WHERE returns > 0") == []


@config(outage_seconds=0.2)
async def test_429_is_waited_out_on_every_other_call(app: Regente) -> None:
    """O15, F8: sessions, polls and the writer obey Retry-After, also beyond `outage_seconds`."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    for peer, call in [
        (worker, SESSION),
        (worker, STATUS),
        (worker, JOB),
        (writer, PROCESS),
        (writer, WRITER_JOB),
    ]:
        peer.fault(*call, 429, retry_after="0.3")
    mission = await run_one(app, worker, writer)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert "writer_failed" not in await names_of(app, mission.id)
    assert await rows(app, "SELECT FROM proxies WHERE fail_count > 0") == []


@config(outage_seconds=30.0)
async def test_a_short_outage_of_a_worker_is_waited_out(app: Regente) -> None:
    """O14, O15, F6: for less than `outage_seconds` the same job continues without a retry."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    worker.gate.clear()
    async with fleet_of(app, writer), runner_in(app):
        async with fleet_of(app, worker, proxies=0):
            (mission_id,) = await app.missions.create([MISSION], queue=True)
            await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        worker.gate.set()
        async with worker.served(int(worker.url.rsplit(":", 1)[1])):
            mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert worker.count("POST", "/scrape") == 1


@config(outage_seconds=0.2)
async def test_a_long_outage_of_a_worker_requeues_its_mission_uncharged(app: Regente) -> None:
    """O14, O15, F6: after `outage_seconds` another worker gets it."""
    gone, other = ScriptedWorker(), ScriptedWorker()
    gone.gate.clear()
    async with fleet_of(app, ScriptedWriter(), proxies=3), runner_in(app):
        async with fleet_of(app, gone, proxies=0):
            (mission_id,) = await app.missions.create([MISSION], queue=True)
            await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        async with fleet_of(app, other, proxies=0):
            mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count, mission.worker_name) == (
        "completed",
        0,
        other.name,
    )
    (returned,) = [
        row["details"]
        for row in await rows(app, "SELECT details FROM events WHERE event = 'mission_returned'")
    ]
    assert returned["error_code"] == "ERROR502"


@config(outage_seconds=0.2, http_timeout=1.0)
async def test_an_unreachable_writer_is_error301_and_a_silent_one_error302(
    app: Regente,
) -> None:
    """O10, O15, F6: its failure is recorded with the code; the mission waits for another writer."""
    await app.missions.set("max_retries", 0)
    worker, silent, good = ScriptedWorker(), ScriptedWriter("silent"), ScriptedWriter("good")
    silent.fault_with(*PROCESS, lambda: StreamingResponse(never()), times=1000)
    unreachable = await app.fleet.add_writer("unreachable", "http://127.0.0.1:9", "a-key")
    failed = (
        "SELECT details->>'error' AS error FROM events WHERE event = 'writer_failed' "
        "AND details->>'writer_name' = %(name)s AND details->>'error_code' = %(code)s"
    )
    async with conducting(app, worker):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        told = await until(app, failed, name="unreachable", code="ERROR301")
        assert told["error"].startswith("POST http://127.0.0.1:9/process: cannot connect")
        await app.fleet.set_active("writer", unreachable, False)
        async with fleet_of(app, silent, proxies=0):
            await eventually_async(lambda: asked(silent))
            async with fleet_of(app, good, proxies=0):
                await until(app, failed, name="silent", code="ERROR302")
                mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert worker.count("POST", "/scrape") == 1


async def asked(peer: ScriptedWriter) -> bool:
    return peer.count(*PROCESS) > 0


async def never() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""
