"""What happened stays readable after its worker, proxy or writer was removed from the fleet."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from regente import Regente
from regente.engine.errors import IllegalTransition, NotFound
from regente.engine.watchdog import Watchdog
from regente.engine.watchdog.retention import RetentionSweep
from regente.fleet.models import Kind
from regente.fleet.read_models import WorkerInfo
from regente.fleet.registry import list_members
from regente.pipelines.missions.queries import QUERIES
from regente.pipelines.missions.read_models import Mission
from tests.pipelines.missions.conftest import (
    MISSION,
    conducting,
    finished,
    fleet_of,
    rows,
    until,
)
from tests.pipelines.missions.test_log import verbatim
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter


async def run_to_the_end(app: Regente) -> Mission:
    """One mission on a fleet `w`, `s`, `proxy-1`, and the end of its session."""
    async with conducting(app, ScriptedWorker("w"), ScriptedWriter("s"), proxies=1):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id)
        await until(app, "SELECT FROM orchestrator WHERE state = 'closed'")
        await until(app, "SELECT FROM workers WHERE status = 'idle'")
    return mission


async def history(app: Regente, mission_id: int) -> list[Any]:
    return [
        await rows(app, "SELECT * FROM missions WHERE id = %(id)s", id=mission_id),
        await rows(app, "SELECT * FROM mission_logs ORDER BY id"),
        await verbatim(app, "mission_with_details", mission_id=mission_id),
        await verbatim(app, "performance_per_worker"),
        await app.missions.timeline(mission_id),
        await app.missions.get(mission_id),
    ]


async def test_history_outlives_the_fleet(app: Regente) -> None:
    """O1, O17, O18: missions, their log and the reports name what was removed; its secrets go."""
    mission = await run_to_the_end(app)
    before = await history(app, mission.id)
    assert len(before[1]) > 8
    for member in await app.fleet.members():
        await app.fleet.remove(member.kind, member.id, by="ana")
        with pytest.raises(NotFound):
            await app.fleet.find(member.name)
        with pytest.raises(NotFound):
            await app.fleet.set_active(member.kind, member.id, True)
        with pytest.raises(NotFound):
            await app.fleet.edit(member.kind, member.id, {"name": "other"})
    assert await app.fleet.members() == []
    assert await history(app, mission.id) == before
    assert (await app.missions.get(mission.id)).worker_name == "w"
    assert (
        await rows(app, "SELECT api_key FROM workers UNION ALL SELECT api_key FROM writers")
        == [{"api_key": ""}] * 2
    )
    assert await rows(app, "SELECT FROM proxies WHERE password IS NULL")
    removed = "SELECT FROM events WHERE event LIKE '%%\\_removed' AND details ->> 'by' = 'ana'"
    assert len(await rows(app, removed)) == 3
    assert await app.fleet.secrets_by_key() == {"current": 0, "former": 0}


async def test_a_member_that_is_added_again_under_its_name_is_another_one(app: Regente) -> None:
    """O18: it begins without a history."""
    first = await run_to_the_end(app)
    for member in await app.fleet.members():
        await app.fleet.remove(member.kind, member.id)
    worker, writer = ScriptedWorker("w"), ScriptedWriter("s")
    async with conducting(app, worker, writer, proxies=1):
        assert {member.name for member in await app.fleet.members()} == {"w", "s", "proxy-1"}
        assert await rows(app, "SELECT FROM proxies WHERE removed_at IS NULL AND fail_count = 0")
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        second = await finished(app, mission_id)
        (member,) = await list_members(app.database, WorkerInfo)
    assert (member.sessions, member.missions) == (1, 1)
    assert second.worker_id != first.worker_id
    assert [row["completed_count"] for row in await verbatim(app, "performance_per_worker")] == [
        1,
        1,
    ]


async def test_a_removed_worker_gives_its_proxy_back_and_gets_no_driver(app: Regente) -> None:
    """O4, O14: a proxy that an earlier crash left with the worker is free again."""
    async with fleet_of(app, ScriptedWorker("w"), proxies=1):
        (worker,) = await app.fleet.members("worker")
        await rows(app, "UPDATE proxies SET in_use_by_worker_id = %(id)s", id=worker.id)
        await app.fleet.remove("worker", worker.id)
        assert await rows(app, "SELECT FROM proxies WHERE in_use_by_worker_id IS NULL AND active")


@pytest.mark.parametrize("kind", ["worker", "proxy", "writer"])
async def test_rows_of_the_fleet_are_not_deleted_by_hand(app: Regente, kind: Kind) -> None:
    """O18: the error names the command that keeps the history."""
    await app.fleet.add_worker("worker", "http://127.0.0.1:9", API_KEY, "storage.example.com")
    await app.fleet.add_proxy("proxy", "proxy.example.com")
    await app.fleet.add_writer("writer", "http://127.0.0.1:9", API_KEY)
    table = "proxies" if kind == "proxy" else f"{kind}s"
    with pytest.raises(psycopg.Error) as refused:
        await rows(app, f"DELETE FROM {table}")
    assert refused.value.sqlstate == "RG001"
    assert "regente fleet remove" in (refused.value.diag.message_hint or "")


async def test_ended_missions_are_kept_until_a_retention_is_set(app: Regente) -> None:
    """O17, O18: with their whole log, sessions included."""
    mission = await run_to_the_end(app)
    await rows(
        app,
        "CREATE OR REPLACE FUNCTION regente.clock() RETURNS timestamptz LANGUAGE sql STABLE "
        "AS $$ SELECT now() + interval '400 days' $$",
    )
    timeline = await app.missions.timeline(mission.id)
    (sweep,) = [
        one
        for one in Watchdog(app.database, app.settings.runner_config().watchdog).sweeps
        if isinstance(one, RetentionSweep)
    ]
    await sweep.run_once()
    assert await app.missions.timeline(mission.id) == timeline
    assert {"session_started", "mission_completed"} <= {row["event"] for row in timeline}
    await app.runtime_settings.set("retention_days", 30, by="ana")
    await sweep.run_once()
    assert await app.missions.find() == []
    assert await rows(app, "SELECT FROM mission_logs WHERE mission_id IS NOT NULL") == []


async def test_a_writer_is_not_removed_under_the_mission_that_it_was_just_given_to(
    app: Regente,
) -> None:
    """O10, O14: whichever comes first, the job or the removal, the other one sees it."""
    first = await app.fleet.add_writer("first", "http://127.0.0.1:9", API_KEY)
    second = await app.fleet.add_writer("second", "http://127.0.0.1:9", API_KEY)
    (mission_id,) = await app.missions.create([MISSION], queue=True)
    await rows(app, "UPDATE mission_runs SET checkpoint = 'armazenamento'")
    intent = {"mission_id": mission_id, "another": 1}
    await app.fleet.remove("writer", first)
    assert not await QUERIES.fetch_one(app.database, "about_to_store", writer_id=first, **intent)
    assert await QUERIES.fetch_one(app.database, "about_to_store", writer_id=second, **intent)
    removal = "UPDATE writers SET removed_at = now(), active = false RETURNING id"
    assert await rows(app, removal) == []
    with pytest.raises(IllegalTransition, match="is in use"):
        await app.fleet.remove("writer", second)
