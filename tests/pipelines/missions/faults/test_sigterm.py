"""SIGTERM: what has no mission is ended, what runs is handed over, and the next process goes on
where it was."""

from __future__ import annotations

import signal

from tests.pipelines.missions.faults.conftest import Theatre, missions_on
from tests.pipelines.missions.faults.peers import FOREVER, Fate
from tests.pipelines.missions.faults.test_takeover import begin, forget, scraping, storing
from tests.support.eventually import eventually_async
from tests.support.peers import stored


async def test_a_mission_in_flight_is_handed_over_and_finished_by_the_next_without_another_job(
    theatre: Theatre,
) -> None:
    """O13, O14: drained, said so, and nothing is scraped twice."""
    leaving = await begin(theatre, scrape=Fate(FOREVER))
    job = await scraping(theatre)
    leaving.send(signal.SIGTERM)
    assert await theatre.ended(leaving) == 0
    assert "drained: 0 finished, 3 handed back, 0 lost" in leaving.said()
    assert theatre.worker.running == [job]
    forget(theatre.worker)
    theatre.orchestrator()
    await scraping(theatre)
    job.finish()
    await theatre.all_ended()
    await theatre.at_rest()
    assert await theatre.statuses() == ["completed"]
    assert (len(theatre.worker.watched), len(theatre.worker.spans)) == (1, 1)


async def test_a_session_without_a_mission_is_ended_and_its_proxy_freed(theatre: Theatre) -> None:
    """O13, O14: its mission is with the writer; the worker is left idle, the mission goes on
    elsewhere."""
    leaving = await begin(theatre, storage=Fate(FOREVER, stored(3)))
    await storing(theatre)
    leaving.send(signal.SIGTERM)
    assert await theatre.ended(leaving) == 0
    states = {
        member.kind: member.status
        for member in await theatre.app.fleet.members()
        if member.kind != "writer"
    }
    assert states == {"worker": "idle", "proxy": "free"}
    assert theatre.worker.span is None
    (job,) = theatre.writer.watched.values()
    theatre.orchestrator()
    job.ready_at = 0.0
    await theatre.all_ended()
    await theatre.at_rest()
    assert (len(theatre.worker.watched), len(theatre.writer.created)) == (1, 1)


async def test_the_other_orchestrator_goes_on_at_once(theatre: Theatre) -> None:
    """O13, O14: what is handed over does not wait for a lease to run out: here that would take an
    hour."""
    config = {"lock_ttl_ms": 3_600_000}
    fates = [Fate(FOREVER)]
    theatre.worker.fate_of = lambda _: fates.pop() if fates else Fate()
    await theatre.app.missions.create(missions_on(1), queue=True)
    leaving = theatre.orchestrator(**config)
    job = await scraping(theatre)
    theatre.orchestrator(**config)
    leaving.send(signal.SIGTERM)
    assert await theatre.ended(leaving) == 0
    forget(theatre.worker)
    job.finish()
    await theatre.all_ended()
    await theatre.at_rest()
    assert len(theatre.worker.watched) == 1


async def test_a_second_sigterm_is_hard_but_safe(theatre: Theatre) -> None:
    """O13, O14: the worker does not answer, so the session cannot be ended in time; the next
    process sees to it."""
    leaving = await begin(theatre, storage=Fate(FOREVER, stored(3)))
    await storing(theatre)
    theatre.worker.fault("DELETE", "/session", 503, times=1000)
    leaving.send(signal.SIGTERM)

    async def asked() -> bool:
        return theatre.worker.count("DELETE", "/session") > 0

    await eventually_async(asked)
    leaving.send(signal.SIGTERM)
    assert await theatre.ended(leaving) == 0
    assert "drained:" in leaving.said()
    theatre.worker.faults.clear()
    (job,) = theatre.writer.watched.values()
    theatre.orchestrator()
    job.ready_at = 0.0
    await theatre.all_ended()
    await theatre.at_rest()
    assert (len(theatre.worker.watched), len(theatre.writer.created)) == (1, 1)
