"""SIGTERM: idle sessions end, running missions are handed over, and the next process continues."""

from __future__ import annotations

import signal

from tests.pipelines.missions.faults.conftest import Environment, missions_on
from tests.pipelines.missions.faults.peers import FOREVER, JobScript
from tests.pipelines.missions.faults.test_takeover import begin, forget, scraping, storing
from tests.support.eventually import eventually_async
from tests.support.peers import stored


async def test_a_mission_in_flight_is_handed_over_and_finished_by_the_next_without_another_job(
    env: Environment,
) -> None:
    """O13, O14: the drain is reported, and no mission is scraped twice."""
    leaving = await begin(env, scrape=JobScript(FOREVER))
    job = await scraping(env)
    leaving.send(signal.SIGTERM)
    assert await env.ended(leaving) == 0
    assert "drained: 0 finished, 3 handed back, 0 lost" in leaving.said()
    assert env.worker.running == [job]
    forget(env.worker)
    env.runner()
    await scraping(env)
    job.finish()
    await env.all_ended()
    await env.at_rest()
    assert await env.statuses() == ["completed"]
    assert (len(env.worker.watched), len(env.worker.spans)) == (1, 1)


async def test_a_session_without_a_mission_is_ended_and_its_proxy_freed(
    env: Environment,
) -> None:
    """O13, O14: its mission is at the writer; the worker becomes idle, the mission continues."""
    leaving = await begin(env, storage=JobScript(FOREVER, stored(3)))
    await storing(env)
    leaving.send(signal.SIGTERM)
    assert await env.ended(leaving) == 0
    states = {
        member.kind: member.status
        for member in await env.app.fleet.members()
        if member.kind != "writer"
    }
    assert states == {"worker": "idle", "proxy": "free"}
    assert env.worker.span is None
    (job,) = env.writer.watched.values()
    env.runner()
    job.ready_at = 0.0
    await env.all_ended()
    await env.at_rest()
    assert (len(env.worker.watched), len(env.writer.created)) == (1, 1)


async def test_the_other_runner_goes_on_at_once(env: Environment) -> None:
    """O13, O14: without waiting for the lease, which lasts an hour here."""
    config = {"lock_ttl_ms": 3_600_000}
    scripts = [JobScript(FOREVER)]
    env.worker.script_of = lambda _: scripts.pop() if scripts else JobScript()
    await env.app.missions.create(missions_on(1), queue=True)
    leaving = env.runner(**config)
    job = await scraping(env)
    env.runner(**config)
    leaving.send(signal.SIGTERM)
    assert await env.ended(leaving) == 0
    forget(env.worker)
    job.finish()
    await env.all_ended()
    await env.at_rest()
    assert len(env.worker.watched) == 1


async def test_a_second_sigterm_is_hard_but_safe(env: Environment) -> None:
    """O13, O14: the worker does not answer; the next process ends the session."""
    leaving = await begin(env, storage=JobScript(FOREVER, stored(3)))
    await storing(env)
    env.worker.fault("DELETE", "/session", 503, times=1000)
    leaving.send(signal.SIGTERM)

    async def asked() -> bool:
        return env.worker.count("DELETE", "/session") > 0

    await eventually_async(asked)
    leaving.send(signal.SIGTERM)
    assert await env.ended(leaving) == 0
    assert "drained:" in leaving.said()
    env.worker.faults.clear()
    (job,) = env.writer.watched.values()
    env.runner()
    job.ready_at = 0.0
    await env.all_ended()
    await env.at_rest()
    assert (len(env.worker.watched), len(env.writer.created)) == (1, 1)
