"""The writer's job: its request, and the result of each of its ends."""

from __future__ import annotations

from typing import Any

import pytest

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
from tests.support.eventually import eventually_async
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter, stored

PROCESSING = {
    "status": "processing",
    "progress": {"total": 3, "processed": 1, "success_count": 1, "failed_count": 0},
}


async def test_the_writers_payload_is_the_specifications(app: Regente) -> None:
    """O10, O17: exactly 3.1.2 and our job id; progress is logged while it is `processing`."""
    writer = ScriptedWriter()
    writer.job_script = [[PROCESSING, PROCESSING, stored(3)]]
    mission = await run_one(app, ScriptedWorker(), writer)
    (sent,) = writer.sent("POST", "/process")
    assert sent.pop("job_id") == mission.writer_job_id
    assert (
        sent.pop("source").items()
        >= {"type": "url", "url": mission.worker_data_url, "json_path": "ads"}.items()
    )
    assert sent == {
        "config": {"table": "ads", "schema": "public", "operation": "upsert", "conflict_key": "id"}
    }
    details = dict(await events_of(app, mission.id))
    assert details["writer_started"] == {
        "writer_job_id": mission.writer_job_id,
        "data_url": mission.worker_data_url,
    }
    assert details["writer_progress"] == {
        "writer_job_id": mission.writer_job_id,
        "processed": 1,
        "total": 3,
    }
    assert details["writer_completed"].keys() >= {
        "writer_job_id",
        "success_count",
        "failed_count",
        "duration_ms",
    }
    assert details["mission_completed"]["success_count"] == 3


async def test_a_partial_store_completes_and_its_failed_items_can_be_read(app: Regente) -> None:
    """O10, O11: failed items are kept with index, data and error; found = stored + failed."""
    writer = ScriptedWriter()
    writer.job_script = [[stored(1, failed=2)]]
    mission = await run_one(app, ScriptedWorker(), writer)
    assert mission.status == "completed"
    assert mission.result is not None
    assert (mission.result["success_count"], mission.result["failed_count"]) == (1, 2)
    assert "residual" not in mission.result
    items = await app.missions.failed_items(mission.id)
    assert items == [{"index": i, "data": {"id": f"bad{i}"}, "error": "told to"} for i in range(2)]
    assert dict(await events_of(app, mission.id))["writer_completed"]["failed_items"] == 2


async def test_ads_that_are_neither_stored_nor_failed_are_reported_as_missing(app: Regente) -> None:
    """O11: a mission with missing ads is marked."""
    writer = ScriptedWriter()
    writer.job_script = [[stored(1)]]
    mission = await run_one(app, ScriptedWorker(), writer)
    assert mission.result is not None
    assert (mission.status, mission.result["residual"]) == ("completed", 2)


async def test_a_writer_that_fails_once_is_asked_again_with_a_new_job(app: Regente) -> None:
    """O10, O15: `failed` is retried; the scrape is not done again."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    writer.job_script = [
        [{"status": "failed", "error": "the table is locked", "error_code": "ERROR303"}]
    ]
    mission = await run_one(app, worker, writer)
    assert (mission.status, mission.retry_count) == ("completed", 1)
    details = dict(await events_of(app, mission.id))
    assert (
        details["writer_failed"].items()
        >= {"writer_job_id": writer.created[0], "error": "the table is locked"}.items()
    )
    assert details["retry_triggered"] == {"attempt": 1, "error_code": "ERROR303", "phase": "writer"}
    assert worker.count("POST", "/scrape") == 1
    assert len(set(writer.created)) == 2


@config(timeout_job=1.5)
async def test_a_writer_that_does_not_end_in_time_is_error302(app: Regente) -> None:
    """O10, O15."""
    writer = ScriptedWriter()
    writer.job_script = [[{"status": "processing"}], [PROCESSING, PROCESSING, stored(3)]]
    mission = await run_one(app, ScriptedWorker(), writer)
    assert (mission.status, mission.retry_count) == ("completed", 1)
    assert dict(await events_of(app, mission.id))["retry_triggered"]["error_code"] == "ERROR302"


async def test_an_invalid_answer_of_a_writer_is_error300(app: Regente) -> None:
    """O10, O15: never guessed."""
    writer = ScriptedWriter()
    nonsense: list[dict[str, Any]] = [
        {"status": "sleeping"},
        {"status": "completed", "progress": {"success_count": "all"}},
        {"status": "completed", "progress": {"success_count": 9_999_999_999}},
    ]
    async with conducting(app, ScriptedWorker(), writer):
        for answer in nonsense:
            writer.job_script = [[answer]]
            (mission_id,) = await app.missions.create([MISSION], queue=True)
            mission = await finished(app, mission_id)
            assert (mission.status, mission.retry_count) == ("completed", 1), answer
            assert (
                dict(await events_of(app, mission_id))["retry_triggered"]["error_code"]
                == "ERROR300"
            )


async def test_without_an_active_writer_it_waits_and_says_why(app: Regente) -> None:
    """O10: no retry is charged, the worker is free; a writer that is added later gets the job."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    async with writer.served() as url, conducting(app, worker):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM workers WHERE session_count = 1 AND status = 'ready'")
        assert (await app.missions.why(mission_id)).code == "NO_WRITER"
        await app.fleet.add_writer("late", url, API_KEY)
        mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)


async def test_a_writer_that_forgot_the_job_gets_it_again_under_the_same_name(app: Regente) -> None:
    """O10, O14: 404 after a restart: sent again under its id, without a retry."""
    writer = ScriptedWriter()
    writer.job_script = [[{"status": "processing"}]]
    async with conducting(app, ScriptedWorker(), writer):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM missions WHERE writer_job_id IS NOT NULL")
        writer.jobs.clear()
        mission = await finished(app, mission_id)
    assert (mission.status, mission.retry_count) == ("completed", 0)
    first, second = writer.sent("POST", "/process")
    assert first == second


async def test_a_writer_with_a_job_cannot_be_removed(app: Regente) -> None:
    """O10: removing is refused while it is needed; afterwards it is possible."""
    writer = ScriptedWriter()
    writer.job_script = [[{"status": "processing"}]]
    async with conducting(app, ScriptedWorker(), writer):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM missions WHERE writer_job_id IS NOT NULL")
        (row,) = await rows(app, "SELECT id FROM writers")
        with pytest.raises(Exception, match="is in use"):
            await app.fleet.remove("writer", row["id"])
        next(iter(writer.jobs.values())).statuses = [stored(3)]
        await finished(app, mission_id)

        async def removed() -> bool:
            await app.fleet.remove("writer", row["id"])
            return True

        await eventually_async(removed)
