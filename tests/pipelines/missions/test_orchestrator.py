"""Opening and stopping the orchestrator."""

from __future__ import annotations

import asyncio

from regente import Regente
from tests.pipelines.missions.conftest import (
    MISSION,
    conducting,
    config,
    finished,
    fleet_of,
    mission_of,
    rows,
    until,
)
from tests.support.peers import ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in

CLOSED = "SELECT FROM orchestrator WHERE state = 'closed'"
AT_REST = (
    "SELECT FROM workers WHERE status = 'idle' AND NOT EXISTS (SELECT FROM proxies WHERE "
    "in_use_by_worker_id IS NOT NULL)"
)


async def test_it_starts_on_request_when_it_does_not_by_itself(app: Regente) -> None:
    """O13: auto_start off: missions wait for a start; without missions it closes by itself."""
    worker = ScriptedWorker()
    assert (await app.missions.set("auto_start", "off")).auto_start is False
    async with conducting(app, worker, ScriptedWriter()):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        state = await app.missions.orchestrator()
        assert (state.state, state.any_queued) == ("closed", True)
        assert worker.calls == []
        assert (await app.missions.start(by="ana")).state == "open"
        assert (await finished(app, mission_id)).status == "completed"
        await until(app, CLOSED)
        await until(app, AT_REST)
    (opened,) = await rows(app, "SELECT details FROM events WHERE event = 'orchestrator_opened'")
    assert opened["details"] == {"by": "ana"}


async def test_it_may_be_started_with_nothing_to_do_and_ends_at_once(app: Regente) -> None:
    """O13: a second start has no effect; it closes by itself."""
    worker = ScriptedWorker()
    async with conducting(app, worker):
        await app.missions.start()
        await app.missions.start()
        await until(app, CLOSED)
    assert worker.calls == []


async def test_stopped_it_lets_what_runs_finish_and_stays_stopped_until_it_is_started(
    app: Regente,
) -> None:
    """O13: drain: no new missions; queueing more does not open it; start does."""
    worker = ScriptedWorker()
    worker.job_script = [[{"status": "running"}]]
    async with conducting(app, worker, ScriptedWriter()):
        first, second = await app.missions.create([MISSION] * 2, queue=True)
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        assert (await app.missions.stop(by="ana")).state == "draining"
        (third,) = await app.missions.create([MISSION], queue=True)
        next(iter(worker.jobs.values())).statuses = [{"status": "completed", "ads_count": 3}]
        assert (await finished(app, first)).status == "completed"
        await until(app, CLOSED)
        await until(app, AT_REST)
        state = await app.missions.orchestrator()
        assert (state.stopped_by, state.any_queued) == ("ana", True)
        assert (await app.missions.why(second)).code == "STOPPED"
        assert worker.count("POST", "/scrape") == 1
        await app.missions.start()
        assert [(await finished(app, one)).status for one in (second, third)] == ["completed"] * 2


async def test_stopped_now_it_hands_missions_back_to_the_queue_uncharged(app: Regente) -> None:
    """O13: the worker's job is cancelled, the mission requeued; it runs after the next start."""
    worker = ScriptedWorker()
    worker.job_script = [[{"status": "running"}]]
    async with conducting(app, worker, ScriptedWriter()):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        job = (
            await until(
                app, "SELECT worker_job_id AS id FROM missions WHERE worker_job_id IS NOT NULL"
            )
        )["id"]
        assert (await app.missions.stop(now=True)).state == "halting"
        await until(app, CLOSED)
        await until(app, AT_REST)
        back = await app.missions.get(mission_id)
        assert (back.status, back.checkpoint, back.retry_count) == ("queued", "atribuido", 0)
        assert worker.count("POST", f"/scrape/{job}/cancel") == 1
        await app.missions.start()
        assert (await finished(app, mission_id)).status == "completed"


@config(error_backoff=60.0)
async def test_it_ends_although_a_mission_waits_for_its_retry(app: Regente) -> None:
    """O13: at a stop, missions that wait for a retry return to the queue."""
    bad = ScriptedWorker()
    bad.job_script = [[{"status": "failed"}]]
    bad.session_script = [[{"status": "ready"}], [{"status": "terminated"}]]
    async with conducting(app, bad, ScriptedWriter(), proxies=3):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(
            app,
            "SELECT FROM workers WHERE status = 'error' AND current_mission_id IS NULL AND "
            "failures = 1",
        )
        waiting = await app.missions.get(mission_id)
        assert (waiting.status, waiting.checkpoint, waiting.retry_count) == (
            "running",
            "extracao",
            1,
        )
        await app.missions.stop()
        await until(app, CLOSED)
        await until(app, AT_REST)
        back = await app.missions.get(mission_id)
        assert (back.status, back.checkpoint, back.retry_count) == ("queued", "atribuido", 1)


async def test_many_may_queue_at_once(app: Regente) -> None:
    """O5, O7: more callers than connections, in one process, and each mission once."""
    worker, other = ScriptedWorker(), ScriptedWorker()
    async with asyncio.timeout(60):
        made = await asyncio.gather(
            *(app.missions.create([MISSION], queue=True, by=f"user {n}") for n in range(20))
        )
    async with conducting(app, worker, other, ScriptedWriter(), proxies=3):
        for (mission_id,) in made:
            assert (await finished(app, mission_id)).status == "completed"
    keys = [job.key for peer in (worker, other) for job in peer.jobs.values()]
    assert sorted(map(mission_of, keys)) == sorted(one for (one,) in made)


async def test_a_runner_that_is_told_to_stop_ends_idle_sessions(app: Regente) -> None:
    """O13: the same on SIGTERM: no session stays open, no proxy reserved."""
    worker = ScriptedWorker()
    async with fleet_of(app, worker, ScriptedWriter()):
        await app.pause("missions")
        await app.missions.create([MISSION], queue=True)
        async with runner_in(app):
            await until(app, "SELECT FROM workers WHERE status = 'ready'")
        assert await rows(app, AT_REST)
    assert worker.calls[-1] == ("DELETE", "/session")


async def test_a_stop_while_a_runner_starts_is_not_lost(app: Regente) -> None:
    """O13: it ends without having claimed anything; and the next run is not stopped by it."""
    (mission_id,) = await app.missions.create([MISSION], queue=True)
    starting = asyncio.create_task(app.run())
    await asyncio.sleep(0)  # its first step: it waits for the database
    app.stop_running()
    async with asyncio.timeout(60):
        await starting
    assert await rows(app, "SELECT FROM tasks WHERE attempt > 0") == []
    async with conducting(app, ScriptedWorker(), ScriptedWriter()):
        assert (await finished(app, mission_id)).status == "completed"


async def test_a_deactivated_worker_finishes_its_mission_and_ends_its_session(
    app: Regente,
) -> None:
    """O3, O6: deactivated while it scrapes."""
    worker, writer = ScriptedWorker("one"), ScriptedWriter()
    worker.job_script = [[{"status": "running"}]]
    async with conducting(app, worker, writer):
        first, second = await app.missions.create([MISSION] * 2, queue=True)
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        _, worker_id = await app.fleet.find("one")
        await app.fleet.set_active("worker", worker_id, False)
        next(iter(worker.jobs.values())).statuses = [{"status": "completed", "ads_count": 3}]
        assert (await finished(app, first)).status == "completed"
        await until(app, AT_REST)
        assert (await app.missions.why(second)).code == "NO_WORKER"
        await app.fleet.set_active("worker", worker_id, True)
        assert (await finished(app, second)).status == "completed"
    reasons = [row["reason"] for row in await rows(app, "SELECT reason FROM sessions ORDER BY id")]
    assert reasons[0] == "deactivated"
