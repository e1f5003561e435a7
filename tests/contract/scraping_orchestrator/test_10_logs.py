"""Section 10: the twenty events with their details, their order, and the audit's queries."""

from __future__ import annotations

import pytest

from tests.contract.scraping_orchestrator.conftest import Sql
from tests.contract.scraping_orchestrator.day import Day

DETAILS = {
    "mission_queued": "queued_by",
    "mission_assigned": "worker_id worker_name proxy_name",
    "mission_canceled": "canceled_by previous_checkpoint",
    "session_started": "worker_id proxy_id proxy_name",
    "session_ready": "worker_id duration_ms",
    "session_failed": "worker_id error_code proxy_name",
    "session_terminated": "worker_id reason",
    "scrape_started": "worker_job_id mission_config",
    "scrape_progress": "worker_job_id ads_count progress_pct",
    "scrape_completed": "worker_job_id ads_count duration_ms",
    "scrape_failed": "worker_job_id error_code error_message",
    "scrape_empty": "worker_job_id",
    "writer_started": "writer_job_id data_url",
    "writer_progress": "writer_job_id processed total",
    "writer_completed": "writer_job_id success_count failed_count duration_ms",
    "writer_failed": "writer_job_id error",
    "mission_completed": "total_duration_ms ads_count success_count",
    "mission_failed": "error_code error_message retry_count",
    "retry_triggered": "attempt error_code phase",
    "proxy_rotated": "old_proxy new_proxy reason",
}


@pytest.mark.parametrize("event", DETAILS)
def test_10_1_the_twenty_events_with_their_details(sql: Sql, event: str) -> None:
    """O17: each occurred on this day, with the document's fields."""
    found = sql(
        "SELECT details FROM mission_logs WHERE event = CAST(:event AS mission_event)", event=event
    )
    assert found
    assert all(set(row["details"]) >= set(DETAILS[event].split()) for row in found)


def test_10_1_no_event_of_a_mission_is_missing(sql: Sql) -> None:
    """O17: events beyond the twenty are values of `mission_event` too."""
    written = "SELECT DISTINCT event FROM events WHERE task_id IS NOT NULL AND event ~ "
    prefixes = "'^(mission|session|scrape|writer|retry|proxy)_' AND mission_event_of(event) IS NULL"
    assert sql(written + prefixes) == []


def test_10_2_the_order_of_a_missions_log(day: Day, sql: Sql) -> None:
    """O17: queued, session, assigned, scrape, writer, completed; times rise strictly."""
    timeline = sql("timeline", mission_id=day.missions["recovered"])
    order = [row["event"] for row in timeline if not row["event"].endswith("_progress")]
    assert order == [
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


def test_10_2_times_and_ids_tell_what_came_first(sql: Sql) -> None:
    """O17: no two entries of a mission have one time, and ids sort as times do."""
    log = sql("SELECT * FROM mission_logs WHERE mission_id IS NOT NULL ORDER BY mission_id, id")
    places = [(row["mission_id"], row["timestamp"]) for row in log]
    assert len(set(places)) == len(places)
    assert places == sorted(places)


def test_10_3_timeline(day: Day, sql: Sql) -> None:
    """O18: ORDER BY timestamp ASC is the order of what happened."""
    timeline = sql("timeline", mission_id=day.missions["stored"])
    events = [row["event"] for row in timeline]
    assert events.index("writer_failed") < events.index("retry_triggered")
    assert events[0] == "mission_queued"
    assert events[-1] == "mission_completed"


def test_10_3_failures_of_24_hours(day: Day, sql: Sql) -> None:
    """O18: with the code and the details of the failure."""
    (row,) = sql("failed_in_24_hours")
    assert (row["id"], row["error_code"]) == (day.missions["exhausted"], "ERROR203")
    assert row["details"]["retry_count"] == row["retry_count"] == 2


def test_10_3_performance_per_worker(sql: Sql) -> None:
    """O18: completed and failed scrapes, their average duration."""
    (row,) = sql("performance_per_worker")
    assert (row["worker_name"], row["completed_count"], row["failed_count"]) == ("w1", 2, 3)
    assert row["avg_duration_ms"] >= 0


def test_10_3_problem_proxies(sql: Sql) -> None:
    """O18: most failures first; the failed session and the rotations are counted."""
    rows = sql("problem_proxies")
    assert [row["fail_count"] for row in rows] == sorted(
        (row["fail_count"] for row in rows), reverse=True
    )
    assert sum(row["session_failures"] for row in rows) >= 1
    assert sum(row["rotations"] for row in rows) >= 1


def test_10_3_the_audit_outlives_the_fleet(sql: Sql) -> None:
    """O18: a worker that was removed is still in the report."""
    before = sql("performance_per_worker")
    sql("UPDATE workers SET removed_at = now(), active = false")
    assert sql("performance_per_worker") == before
