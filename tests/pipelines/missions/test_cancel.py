"""Cancel in each state of a mission, and retry afterwards."""

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
    until,
)
from tests.support.peers import ScriptedWorker, ScriptedWriter


async def canceled(app: Regente, mission_id: int) -> dict[str, Any]:
    assert (await finished(app, mission_id)).status == "canceled"
    return dict(await events_of(app, mission_id))["mission_canceled"]


async def test_a_mission_that_waits_is_canceled_at_once(app: Regente) -> None:
    """O12: as a draft and in the queue; retried, it is queued again."""
    await app.missions.set("auto_start", False)
    draft, queued = await app.missions.create([MISSION] * 2)
    await app.missions.queue([queued])
    assert [await app.missions.cancel(one, by="ana") for one in (draft, queued)] == [
        "canceled",
        "canceled",
    ]
    assert await canceled(app, draft) == {"canceled_by": "ana", "previous_checkpoint": None}
    assert await canceled(app, queued) == {"canceled_by": "ana", "previous_checkpoint": "atribuido"}
    await app.missions.retry(queued)
    again = await app.missions.get(queued)
    assert (again.status, again.checkpoint, again.finished_at) == ("queued", "atribuido", None)


async def test_a_cancel_while_extracting_is_confirmed_by_the_worker_which_goes_on_with_its_session(
    app: Regente,
) -> None:
    """O12: `POST /scrape/{id}/cancel`, then `canceled`; the session takes the next mission."""
    worker = ScriptedWorker()
    worker.job_script = [[{"status": "running"}], [{"status": "running"}]]
    async with conducting(app, worker, ScriptedWriter()):
        first, second = await app.missions.create([MISSION] * 2, queue=True)
        job = (
            await until(
                app, "SELECT worker_job_id AS id FROM missions WHERE worker_job_id IS NOT NULL"
            )
        )["id"]
        assert await app.missions.cancel(first, by="ana") == "canceling"
        details = await canceled(app, first)
        await until(app, "SELECT FROM workers WHERE current_mission_id = %(id)s", id=second)
        other = await until(
            app, "SELECT worker_job_id AS id FROM missions WHERE worker_job_id <> %(job)s", job=job
        )
        worker.jobs[other["id"]].statuses = [{"status": "completed", "ads_count": 3}]
        assert (await finished(app, second)).status == "completed"
        await app.missions.retry(first)
        again = await finished(app, first)
    assert details == {"canceled_by": "ana", "previous_checkpoint": "extracao"}
    assert worker.count("POST", f"/scrape/{job}/cancel") >= 1
    assert again.status == "completed"
    sessions = await rows(app, "SELECT missions FROM sessions ORDER BY id LIMIT 1")
    assert sessions[0]["missions"] >= 2
    log = [details for name, details in await events_of(app, first) if name == "mission_canceled"]
    assert log == [details]  # the past does not change with what came after


@config(cancel_seconds=0.3)
async def test_a_worker_that_does_not_confirm_a_cancel_loses_its_session_at_the_deadline(
    app: Regente,
) -> None:
    """O12: the mission is canceled, the job is ended, the worker takes the next mission."""
    worker = ScriptedWorker()
    worker.obeys_cancel = False
    worker.job_script = [[{"status": "running"}]]
    async with conducting(app, worker, ScriptedWriter()):
        first, second = await app.missions.create([MISSION] * 2, queue=True)
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL")
        await app.missions.cancel(first)
        await canceled(app, first)
        assert (await finished(app, second)).status == "completed"
    assert worker.count("DELETE", "/session") >= 2
    assert await rows(app, "SELECT FROM proxies WHERE fail_count > 0") == []


async def test_a_cancel_while_storing_ends_the_mission_and_a_retry_stores_what_was_extracted(
    app: Regente,
) -> None:
    """O12: the writer has no cancel; a retry continues at the writer without a new scrape."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    writer.job_script = [[{"status": "processing"}]]
    async with conducting(app, worker, writer):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM missions WHERE writer_job_id IS NOT NULL")
        await app.missions.cancel(mission_id)
        assert await canceled(app, mission_id) == {
            "canceled_by": "user",
            "previous_checkpoint": "armazenamento",
        }
        await app.missions.retry(mission_id)
        assert (await finished(app, mission_id)).status == "completed"
    assert (worker.count("POST", "/scrape"), writer.count("POST", "/process")) == (1, 2)


async def test_many_are_canceled_and_retried_at_once_and_only_missions(app: Regente) -> None:
    """O12: the counts say what happened."""
    await app.missions.set("auto_start", False)
    ids = await app.missions.create([MISSION] * 3, queue=True)
    other = await app.enqueue("orchestrator", {})
    assert await app.missions.cancel_many([*ids, other]) == {"canceled": 3, "canceling": 0}
    assert sorted(await app.missions.retry_many([*ids, other])) == ids
    assert (await app.get(other)).status == "queued"
    with pytest.raises(Exception, match="is not an id"):
        await app.missions.cancel_many([-1])


async def test_a_worker_that_was_left_with_a_mission_that_was_canceled_and_queued_again_is_not_lost(
    app: Regente,
) -> None:
    """O12, O14: it had no driver meanwhile; its driver frees it, and the mission runs."""
    (mission_id,) = await app.missions.create([MISSION], queue=True)
    await app.fleet.add_worker("w", "http://127.0.0.1:9", "a-key", "storage.example.com")
    await rows(app, "UPDATE workers SET status = 'initializing'")
    await rows(app, "UPDATE workers SET status = 'ready'")
    await rows(
        app, "UPDATE workers SET status = 'scraping', current_mission_id = %(id)s", id=mission_id
    )
    await app.missions.cancel(mission_id)
    await app.missions.retry(mission_id)
    async with conducting(app, ScriptedWorker(), ScriptedWriter()):
        assert (await finished(app, mission_id)).status == "completed"
        await until(app, "SELECT FROM workers WHERE name = 'w' AND current_mission_id IS NULL")
