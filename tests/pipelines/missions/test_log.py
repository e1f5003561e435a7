"""The audit log: the specification's events, fields and tables, and its own queries, verbatim."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from regente import Regente
from regente.pipelines.missions.operations import mission_filter
from regente.pipelines.missions.read_models import Mission
from regente.queries import Queries
from tests.pipelines.missions.conftest import MISSION, conducting, events_of, finished, rows, until
from tests.pipelines.missions.test_sessions import session
from tests.support.peers import ScriptedWorker, ScriptedWriter, stored

FIELDS = {
    "mission_queued": {"queued_by"},
    "mission_assigned": {"worker_id", "worker_name", "proxy_name"},
    "mission_canceled": {"canceled_by", "previous_checkpoint"},
    "session_started": {"worker_id", "proxy_id", "proxy_name"},
    "session_ready": {"worker_id", "duration_ms"},
    "session_failed": {"worker_id", "error_code", "proxy_name"},
    "session_terminated": {"worker_id", "reason"},
    "scrape_started": {"worker_job_id", "mission_config"},
    "scrape_progress": {"worker_job_id", "ads_count", "progress_pct"},
    "scrape_completed": {"worker_job_id", "ads_count", "duration_ms"},
    "scrape_failed": {"worker_job_id", "error_code", "error_message"},
    "scrape_empty": {"worker_job_id"},
    "writer_started": {"writer_job_id", "data_url"},
    "writer_progress": {"writer_job_id", "processed", "total"},
    "writer_completed": {"writer_job_id", "success_count", "failed_count", "duration_ms"},
    "writer_failed": {"writer_job_id", "error"},
    "mission_completed": {"total_duration_ms", "ads_count", "success_count"},
    "mission_failed": {"error_code", "error_message", "retry_count"},
    "retry_triggered": {"attempt", "error_code", "phase"},
    "proxy_rotated": {"old_proxy", "new_proxy", "reason"},
}

QUERIES = Queries(
    Path(__file__).parents[2] / "contract" / "scraping_orchestrator" / "specification.sql"
)


async def verbatim(app: Regente, name: str, **params: Any) -> list[dict[str, Any]]:
    """The specification's query; only `:param` is rewritten for psycopg."""
    return await rows(app, re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", QUERIES[name]), **params)


COLUMNS = {
    "missions": "id date_start date_end media_type languages status "
    "checkpoint worker_id worker_job_id "
    "worker_data_url "
    "proxy_used writer_job_id ads_count error_code error_message retry_count created_at "
    "queued_at started_at finished_at",
    "workers": "id name url api_key storage_domain status session_count current_mission_id active "
    "last_test_at last_test_ok "
    "created_at updated_at",
    "proxies": "id name host port username password active in_use_by_worker_id fail_count "
    "last_used_at last_test_at "
    "last_test_ok created_at",
    "writers": "id name url api_key active last_test_at last_test_ok created_at updated_at",
    "mission_logs": "id mission_id event details timestamp",
}


async def test_the_specifications_tables_can_be_read_under_its_names(app: Regente) -> None:
    """O1: every column of 3.2 to 3.6."""
    for table, columns in COLUMNS.items():
        await rows(app, f"SELECT {', '.join(columns.split())} FROM {table}")


async def full_day(app: Regente) -> dict[str, Mission]:
    """Missions with every ending: retried and partly stored, empty, exhausted, canceled."""
    worker, writer = ScriptedWorker("only"), ScriptedWriter()
    worker.session_script = [session("stuck"), session("ready")]
    worker.job_script = [
        [
            {"status": "running", "ads_count": 1, "progress_pct": 10},
            {"status": "completed", "ads_count": 3},
        ],
        [{"status": "empty"}],
        *([{"status": "failed"}] for _ in range(3)),
    ]
    writer.job_script = [
        [
            {"status": "processing", "progress": {"processed": 1, "total": 3}},
            {"status": "failed", "error": "full"},
        ],
        [stored(1, failed=2)],
    ]
    found = {}
    async with conducting(app, worker, writer, proxies=3):
        for name in ("good", "empty", "exhausted"):
            (mission_id,) = await app.missions.create([MISSION], queue=True, by="user")
            found[name] = await finished(app, mission_id)
        (mission_id,) = await app.missions.create([MISSION])
        await app.missions.cancel(mission_id)
        found["canceled"] = await app.missions.get(mission_id)
        await until(app, "SELECT FROM orchestrator WHERE state = 'closed'")
        await until(app, "SELECT FROM workers WHERE status = 'idle'")
    return found


async def test_the_twenty_events_carry_their_fields_and_the_specifications_queries_answer(
    app: Regente,
) -> None:
    """O1, O11, O17, O18: each event of 10.1, each query of 6.5 to 6.8 and 10.3."""
    day = await full_day(app)
    logged: dict[str, list[dict[str, Any]]] = {}
    for row in await rows(app, "SELECT event, details FROM mission_logs"):
        logged.setdefault(row["event"], []).append(row["details"])
    assert set(FIELDS) <= set(logged)
    for event, fields in FIELDS.items():
        assert all(set(details) >= fields for details in logged[event]), event

    good, exhausted = day["good"], day["exhausted"]
    timeline = await verbatim(app, "timeline", mission_id=good.id)
    assert timeline == sorted(timeline, key=lambda row: row["timestamp"])
    assert [row["event"] for row in await app.missions.timeline(good.id)] == [
        "mission_queued",
        "session_started",
        "session_ready",
        "mission_assigned",
        "scrape_started",
        "scrape_progress",
        "scrape_completed",
        "writer_started",
        "writer_progress",
        "writer_failed",
        "retry_triggered",
        "writer_started",
        "writer_completed",
        "mission_completed",
    ]
    ours = await app.missions.timeline(good.id)
    assert sorted(row["event"] for row in timeline) == sorted(row["event"] for row in ours)
    (failed,) = await verbatim(app, "failed_in_24_hours")
    assert (failed["id"], failed["status"], failed["error_code"], failed["retry_count"]) == (
        exhausted.id,
        "failed",
        "ERROR203",
        2,
    )
    (performance,) = await verbatim(app, "performance_per_worker")
    assert (
        performance["worker_name"],
        performance["completed_count"],
        performance["failed_count"],
    ) == ("only", 1, 3)
    assert performance["avg_duration_ms"] >= 0
    proxies = await verbatim(app, "problem_proxies")
    assert [row["fail_count"] for row in proxies] == [1, 0, 0]
    assert proxies[0]["session_failures"] == 1
    assert sum(row["rotations"] for row in proxies) >= 3
    (available,) = await verbatim(app, "available_workers")
    assert (available["name"], available["current_proxy_name"]) == ("only", None)
    assert await verbatim(app, "pending_in_writer") == []
    assert await verbatim(app, "should_it_end") == [{"queued_count": 0, "running_count": 0}]
    (shown,) = await verbatim(app, "mission_with_details", mission_id=good.id)
    assert (shown["worker_name"], shown["proxy_name"], shown["status"]) == (
        "only",
        good.proxy_used,
        "completed",
    )


async def test_the_queries_show_missions_in_progress(app: Regente) -> None:
    """O1: at the writer, on a worker, queued; one that waits for its retry is still running."""
    worker, writer = ScriptedWorker(), ScriptedWriter()
    writer.default_job = [{"status": "processing"}]
    worker.job_script = [[{"status": "completed", "ads_count": 3}], [{"status": "running"}]]
    async with conducting(app, worker, writer):
        first, second, third = await app.missions.create([MISSION] * 3, queue=True)
        await until(
            app, "SELECT FROM missions WHERE worker_job_id IS NOT NULL AND id = %(id)s", id=second
        )
        assert [row["id"] for row in await verbatim(app, "pending_in_writer")] == [first]
        assert await verbatim(app, "should_it_end") == [{"queued_count": 1, "running_count": 2}]
        assert await verbatim(app, "available_workers") == []
        assert await app.missions.counts() == {
            "draft": 0,
            "queued": 1,
            "running": 2,
            "completed": 0,
            "failed": 0,
            "canceled": 0,
        }
        await app.missions.cancel_many([first, second, third])
        for one in (first, second, third):
            await finished(app, one)


async def test_the_log_of_a_failure_does_not_change_when_the_mission_is_tried_again(
    app: Regente,
) -> None:
    """O17: retry_count and previous_checkpoint keep the values of that time."""
    worker = ScriptedWorker()
    worker.job_script = [[{"status": "failed"}] for _ in range(3)]
    async with conducting(app, worker, ScriptedWriter()):
        (mission_id,) = await app.missions.create([MISSION], queue=True)
        await finished(app, mission_id)
        before = dict(await events_of(app, mission_id))["mission_failed"]
        await app.missions.retry(mission_id)
        again = await finished(app, mission_id)
    assert (again.status, again.retry_count, before["retry_count"]) == ("completed", 0, 2)
    assert dict(await events_of(app, mission_id))["mission_failed"] == before


@pytest.mark.parametrize("wrong", [["nonsense"], ["queued", "done"]])
async def test_questions_for_unknown_states_are_refused(app: Regente, wrong: list[str]) -> None:
    """O18: a clear error that names the known ones."""
    with pytest.raises(Exception, match="is not a status; known: draft, queued"):
        await app.missions.find(mission_filter(wrong))
