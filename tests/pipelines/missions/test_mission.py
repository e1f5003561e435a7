"""A mission's way through session, scrape and storage."""

from __future__ import annotations

from regente import Regente
from tests.pipelines.missions.conftest import MISSION, conducting, events_of, finished, names_of
from tests.support.eventually import eventually_async
from tests.support.peers import ScriptedWorker, ScriptedWriter


async def test_a_mission_goes_through_session_scrape_and_storage(app: Regente) -> None:
    """O2, O5, O8, O9, O10, O11, O17: the log reads like the specification's own example."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    async with conducting(app, worker, writer):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id)

    assert (mission.status, mission.checkpoint, mission.ads_count) == ("completed", "finalizado", 3)
    assert await names_of(app, mission_id) == [
        "mission_queued",
        "session_started",
        "session_ready",
        "mission_assigned",
        "scrape_started",
        "scrape_completed",
        "writer_started",
        "writer_completed",
        "mission_completed",
    ]
    assert worker.count("POST", "/scrape") == 1
    assert writer.count("POST", "/process") == 1
    details = dict(await events_of(app, mission_id))
    assert details["mission_completed"].keys() == {
        "total_duration_ms",
        "ads_count",
        "success_count",
        "failed_count",
    }


async def test_when_nothing_is_left_sessions_end_and_proxies_are_free(app: Regente) -> None:
    """O13: the orchestrator closes by itself; workers are idle and proxies free."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    async with conducting(app, worker, writer):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await finished(app, mission_id)

        async def at_rest() -> bool:
            states = {
                member.kind: member.status
                for member in await app.fleet.members()
                if member.kind != "writer"
            }
            state = await app.missions.orchestrator()
            return state.state == "closed" and states == {"worker": "idle", "proxy": "free"}

        await eventually_async(at_rest)
    assert worker.count("DELETE", "/session") == 1
