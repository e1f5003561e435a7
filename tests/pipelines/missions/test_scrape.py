"""The scrape job: its request, and the result of each of its ends."""

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
    fleet_of,
    mission_of,
    names_of,
    run_one,
    until,
)
from tests.support.peers import API_KEY, ScriptedWorker, ScriptedWriter
from tests.support.running import runner_in


async def test_the_scrape_payload_is_the_specifications(app: Regente) -> None:
    """O8: exactly 2.4.1; progress is logged; `pending`, `queued` and `running` are polled on."""
    worker = ScriptedWorker()
    under_way: list[dict[str, Any]] = [
        {"status": "pending"},
        {"status": "queued"},
        {"status": "running", "ads_count": 2, "progress_pct": 40},
    ]
    worker.job_script = [
        [*under_way, {"status": "completed", "ads_count": 3, "data": [{"id": "x"}]}]
    ]
    mission = await run_one(app, worker, ScriptedWriter())
    assert worker.sent("POST", "/scrape") == [
        {
            "filters": {
                "date_range": {"start": "2025-01-15", "end": "2025-01-15"},
                "format": "video",
                "sort_by": "qtd_ads",
                "languages": ["pt"],
            },
            "options": {"max_ads": "all", "batch_size": 150},
        }
    ]
    details = dict(await events_of(app, mission.id))
    assert details["scrape_started"].keys() >= {"worker_job_id", "mission_config"}
    assert details["scrape_progress"] == {
        "worker_job_id": mission.worker_job_id,
        "ads_count": 2,
        "progress_pct": 40,
    }
    assert details["scrape_completed"].keys() == {"worker_job_id", "ads_count", "duration_ms"}
    assert mission.ads_count == 3


@pytest.mark.parametrize(
    ("domain", "base"),
    [
        ("storage.meusite.com", "https://storage.meusite.com"),
        ("http://127.0.0.1:9/files/", "http://127.0.0.1:9/files"),
    ],
)
async def test_the_data_url_follows_the_formula(app: Regente, domain: str, base: str) -> None:
    """O9: https by default; a storage domain with its own scheme is unchanged."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    async with worker.served() as url, fleet_of(app, writer, proxies=1), runner_in(app):
        await app.fleet.add_worker("w", url, API_KEY, domain)
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        mission = await finished(app, mission_id)
    job = mission.worker_job_id
    assert mission.worker_data_url == f"{base}/{job}/{job}_results.json"
    assert writer.sent("POST", "/process")[0]["source"]["url"] == mission.worker_data_url


async def test_a_scrape_without_results_completes_without_a_writer(app: Regente) -> None:
    """O8: 0 ads: no writer, `scrape_empty` is logged, the session counts it."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    worker.job_script = [
        [{"status": "empty"}],
        [{"status": "empty", "ads_count": 0}],
        [{"status": "completed", "ads_count": 0}],
    ]
    async with conducting(app, worker, writer):
        for mission_id in await app.missions.create([MISSION] * 3, queue=True):
            mission = await finished(app, mission_id)
            assert (mission.status, mission.checkpoint, mission.ads_count) == (
                "completed",
                "finalizado",
                0,
            )
            assert mission.worker_data_url is None
            assert (await names_of(app, mission_id))[-2:] == ["scrape_empty", "mission_completed"]
    assert writer.calls == []
    assert worker.count("POST", "/session") == 1


BAD_ENDS: list[tuple[dict[str, Any], str, str]] = [
    ({"status": "failed"}, "ERROR200", "is failed"),
    ({"status": "paused"}, "ERROR200", "is paused"),
    ({"status": "cancelled"}, "ERROR201", "not by us"),
    ({"status": "completed"}, "ERROR200", "says nothing of its ads_count"),
    ({"status": "completed", "ads_count": -1}, "ERROR200", "ads_count"),
    ({"status": "completed", "ads_count": "many"}, "ERROR200", "ads_count"),
    ({"status": "completed", "ads_count": 3_000_000_000}, "ERROR200", "ads_count"),
    ({"status": "done", "ads_count": 3}, "ERROR200", "status"),
    (
        {"status": "failed", "problem": {"cause": "layout", "message": "a \u0000 in it"}},
        "ERROR200",
        " in it",
    ),
]


async def test_a_failed_scrape_is_retried_as_a_new_job(app: Regente) -> None:
    """O8, O15: each costs one retry of the scrape phase; an invalid answer is never interpreted."""
    worker = ScriptedWorker()
    async with conducting(app, worker, ScriptedWriter(), proxies=3):
        for last, code, says in BAD_ENDS:
            worker.job_script, jobs = [[last]], len(worker.jobs)
            (mission_id,) = await app.missions.create([MISSION], queue=True)
            mission = await finished(app, mission_id)
            assert (mission.status, mission.retry_count, mission.ads_count) == (
                "completed",
                1,
                3,
            ), last
            details = dict(await events_of(app, mission_id))
            assert details["retry_triggered"] == {
                "attempt": 1,
                "error_code": code,
                "phase": "scrape",
            }
            failed = details["scrape_failed"]
            assert failed.keys() == {"worker_job_id", "error_code", "error_message"}
            assert (failed["worker_job_id"], failed["error_code"]) == (
                list(worker.jobs)[jobs],
                code,
            )
            assert says in failed["error_message"]
            assert len(worker.jobs) == jobs + 2
            assert [failure["code"] for failure in await app.failures(mission_id)] == [code]


@config(timeout_job=1.5)
async def test_a_job_that_takes_too_long_is_cancelled_at_the_worker_and_retried(
    app: Regente,
) -> None:
    """O8, O15: ERROR202; the old job does not keep running."""
    worker = ScriptedWorker()
    worker.job_script = [[{"status": "running"}]]
    mission = await run_one(app, worker, ScriptedWriter())
    assert (mission.status, mission.retry_count) == ("completed", 1)
    assert dict(await events_of(app, mission.id))["retry_triggered"]["error_code"] == "ERROR202"
    first = next(iter(worker.jobs))
    assert worker.count("POST", f"/scrape/{first}/cancel") == 1


async def test_the_worker_is_free_for_the_next_mission_while_storage_goes_on(app: Regente) -> None:
    """O9: two missions are stored while one worker extracts the third in one session."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    writer.default_job = [{"status": "processing", "progress": {"processed": 1, "total": 3}}]
    async with conducting(app, worker, writer):
        ids = await app.missions.create([MISSION] * 2, queue=True)
        await until(
            app, "SELECT FROM missions WHERE checkpoint = 'armazenamento' HAVING count(*) = 2"
        )
        worker.job_script = [[{"status": "running"}]]
        ids += await app.missions.create([MISSION], queue=True)
        await until(app, "SELECT FROM workers WHERE status = 'scraping' AND session_count = 2")
        await until(app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL HAVING count(*) = 3")
        await until(app, "SELECT FROM missions WHERE writer_job_id IS NOT NULL HAVING count(*) = 2")
        list(worker.jobs.values())[-1].statuses = [{"status": "completed", "ads_count": 3}]
        await until(app, "SELECT FROM missions WHERE writer_job_id IS NOT NULL HAVING count(*) = 3")
        for job in writer.jobs.values():
            job.statuses = [
                {"status": "completed", "progress": {"success_count": 3, "processed": 3}}
            ]
        assert [(await finished(app, one)).status for one in ids] == ["completed"] * 3
    assert worker.count("POST", "/session") == 1


async def test_missions_are_given_out_in_the_order_in_which_they_were_queued(app: Regente) -> None:
    """O7: first in, first out, each once."""
    worker = ScriptedWorker()
    ids = await app.missions.create([MISSION] * 6)
    order = [ids[3], ids[0], ids[5], ids[1], ids[4], ids[2]]
    for one in order:
        await app.missions.queue([one])
    async with conducting(app, worker, ScriptedWriter()):
        for one in order:
            await finished(app, one)
    assert [mission_of(job.key) for job in worker.jobs.values()] == order
