"""Section 5: queueing, the worker's and the writer's part, cancel, end and recovery."""

from __future__ import annotations

from tests.contract.scraping_orchestrator.conftest import Sql
from tests.contract.scraping_orchestrator.day import Day
from tests.pipelines.missions.conftest import STORAGE

LOG = "SELECT event, details FROM mission_logs WHERE mission_id = :mission_id ORDER BY timestamp"


def events(sql: Sql, day: Day, name: str) -> list[str]:
    return [row["event"] for row in sql(LOG, mission_id=day.missions[name])]


def test_5_1_a_selected_mission_is_queued(sql: Sql) -> None:
    """O5: the document's UPDATE and INSERT; the log has the event once, with its author."""
    (made,) = sql(
        "INSERT INTO missions (date_start, date_end, media_type, languages, status) "
        "VALUES ('2025-01-15', '2025-01-15', 'all', ARRAY['pt'], 'draft') RETURNING id"
    )
    sql("queue", mission_id=made["id"])
    sql("log_queued", mission_id=made["id"])
    (row,) = sql("SELECT * FROM missions WHERE id = :mission_id", mission_id=made["id"])
    assert (row["status"], row["checkpoint"]) == ("queued", "atribuido")
    assert row["queued_at"] is not None
    (entry,) = sql(LOG, mission_id=made["id"])
    (author,) = sql("SELECT session_user AS name")
    assert entry == {"event": "mission_queued", "details": {"queued_by": author["name"]}}


def test_5_2_2_a_session_is_opened_and_polled_until_it_is_ready(day: Day) -> None:
    """O6: POST /session with the proxy, then GET /session/status through each stage."""
    calls = day.worker.calls
    first = calls.index(("POST", "/session"))
    assert calls[first + 1 : first + 6] == [("GET", "/session/status")] * 5
    assert calls[first + 6] == ("POST", "/scrape")


def test_5_2_4_the_scrape_is_started_once_and_polled_to_its_end(day: Day, sql: Sql) -> None:
    """O8: each status of the table; 3 ads, then the job of the writer."""
    assert events(sql, day, "stored") == [
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


def test_5_2_4_empty_is_a_success_without_ads(day: Day, sql: Sql) -> None:
    """O8: `ads_count = 0`, no writer."""
    (row,) = sql("SELECT * FROM missions WHERE id = :id", id=day.missions["empty"])
    assert (row["status"], row["ads_count"], row["writer_job_id"]) == ("completed", 0, None)
    assert "scrape_empty" in events(sql, day, "empty")


def test_5_2_5_the_address_of_the_data(day: Day, sql: Sql) -> None:
    """O9: `https://{storage_domain}/{job_id}/{job_id}_results.json`; a scheme of its own stays."""
    (row,) = sql("SELECT * FROM missions WHERE id = :id", id=day.missions["stored"])
    job = row["worker_job_id"]
    assert row["worker_data_url"] == f"https://{STORAGE}/{job}/{job}_results.json"


def test_5_2_1_and_2_6_the_session_serves_mission_after_mission(day: Day, sql: Sql) -> None:
    """O6, O9: the worker is released at the end of the scrape, and its session goes on."""
    sessions = sql(
        "SELECT session_id, count(*) AS missions FROM mission_sessions GROUP BY session_id"
    )
    assert max(row["missions"] for row in sessions) >= 2


def test_5_3_partial_is_stored_with_its_failed_items(day: Day, sql: Sql) -> None:
    """O10: one retry of a failed job, then `partial`: the items that failed are kept."""
    (done,) = [
        row["details"]
        for row in sql(LOG, mission_id=day.missions["stored"])
        if row["event"] == "mission_completed"
    ]
    assert (done["ads_count"], done["success_count"], done["failed_count"]) == (3, 2, 1)
    assert done["total_duration_ms"] >= 0
    (item,) = sql(
        "SELECT index, data, error FROM mission_failed_items WHERE mission_id = :id",
        id=day.missions["stored"],
    )
    assert item == {"index": 0, "data": {"id": "bad0"}, "error": "told to"}


def test_5_4_a_cancel_reaches_the_worker(day: Day, sql: Sql) -> None:
    """O12: POST /scrape/{job_id}/cancel; `previous_checkpoint` says where it was."""
    (mission,) = sql("SELECT * FROM missions WHERE id = :id", id=day.missions["canceled running"])
    assert day.worker.count("POST", f"/scrape/{mission['worker_job_id']}/cancel") == 1
    canceled = {
        name: sql(LOG, mission_id=day.missions[name])[-1]
        for name in ("canceled running", "canceled waiting")
    }
    assert canceled["canceled running"]["event"] == "mission_canceled"
    assert canceled["canceled running"]["details"] == {
        "canceled_by": "ana",
        "previous_checkpoint": "extracao",
    }
    assert canceled["canceled waiting"]["details"]["previous_checkpoint"] == "atribuido"


def test_5_5_the_orchestrator_ends_its_sessions(day: Day, sql: Sql) -> None:
    """O13: DELETE /session, proxies released, workers idle, `session_terminated`."""
    assert day.worker.calls[-1] == ("DELETE", "/session")
    assert sql("SELECT event FROM mission_logs ORDER BY timestamp DESC LIMIT 1") == [
        {"event": "session_terminated"}
    ]
    assert sql("SELECT state FROM orchestrator") == [{"state": "closed"}]


def test_5_6_after_a_crash_the_job_is_asked_for_and_not_sent_again(day: Day, sql: Sql) -> None:
    """O14: a second runner continues: one POST /scrape for the mission."""
    (row,) = sql("SELECT * FROM missions WHERE id = :id", id=day.missions["recovered"])
    assert (row["status"], row["retry_count"]) == ("completed", 0)
    assert day.scrapes_of_the_recovered == 1


def test_5_6_the_documents_queries_find_nothing_left_behind(sql: Sql) -> None:
    """O14: no orphaned mission, no proxy that an idle worker keeps."""
    assert sql("orphans") == []
    sql("free_orphaned_proxies")
