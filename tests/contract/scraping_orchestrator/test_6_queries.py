"""Section 6: the document's critical queries, word for word."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from tests.contract.scraping_orchestrator.conftest import Sql
from tests.contract.scraping_orchestrator.day import Day

INSERT = (
    "INSERT INTO missions (date_start, date_end, media_type, languages) "
    "VALUES ('2025-01-15', '2025-01-15', 'all', ARRAY['pt']) RETURNING id"
)


def worker_id(sql: Sql) -> str:
    return str(sql("SELECT id FROM workers")[0]["id"])


def test_6_1_and_6_2_a_random_proxy_is_reserved_and_released(sql: Sql) -> None:
    """O4: atomic; a worker has one at most."""
    worker = worker_id(sql)
    (proxy,) = sql("reserve_proxy", worker_id=worker)
    assert (proxy["in_use_by_worker_id"], proxy["active"]) == (worker, True)
    assert proxy["last_used_at"] is not None
    sql("release_proxy", worker_id=worker)
    assert sql("SELECT FROM proxies WHERE in_use_by_worker_id IS NOT NULL") == []


def test_6_1_what_another_session_reserves_is_skipped(day: Day, sql: Sql) -> None:
    """O4: FOR UPDATE SKIP LOCKED."""
    worker = worker_id(sql)
    with psycopg.connect(day.url) as other:
        other.execute("SELECT FROM regente.proxies WHERE name <> 'proxy-2' FOR UPDATE")
        assert [row["name"] for row in sql("reserve_proxy", worker_id=worker)] == ["proxy-2"]
        other.rollback()


def test_6_3_a_failure_is_counted(sql: Sql) -> None:
    """O4: RETURNING the row; the third deactivates."""
    (proxy,) = sql("SELECT id, fail_count FROM proxies ORDER BY fail_count LIMIT 1")
    (row,) = sql("count_a_failure", proxy_id=proxy["id"])
    assert (row["fail_count"], row["active"]) == (proxy["fail_count"] + 1, True)


def test_6_4_a_mission_is_allocated_by_its_workers_driver(day: Day, sql: Sql) -> None:
    """O7: with an empty queue it finds none; with a mission it is refused by name: a caller that
    could crash before its POST /scrape would leave a mission that nothing drives."""
    worker = worker_id(sql)
    assert sql("allocate_mission", worker_id=worker, proxy_name="proxy-1") == []
    sql(INSERT)
    with pytest.raises(psycopg.Error) as refused:
        sql("allocate_mission", worker_id=worker, proxy_name="proxy-1")
    assert refused.value.sqlstate == "RG001"
    assert "regente orchestrator start" in (refused.value.diag.message_hint or "")


def test_6_4_what_the_driver_does_instead(day: Day, sql: Sql) -> None:
    """O7: `worker_id`, `proxy_used`, `started_at`, and `mission_assigned` in the log."""
    (row,) = sql("SELECT * FROM missions WHERE id = :id", id=day.missions["stored"])
    (assigned,) = sql(
        "SELECT details FROM mission_logs WHERE event = 'mission_assigned' AND mission_id = :id",
        id=day.missions["stored"],
    )
    assert assigned["details"]["worker_id"] == row["worker_id"] == worker_id(sql)
    assert assigned["details"]["proxy_name"] == row["proxy_used"]
    assert row["started_at"] is not None


def test_6_5_available_workers(sql: Sql) -> None:
    """O3: active, idle or ready, without a mission; with the proxy that it uses."""
    (row,) = sql("available_workers")
    assert (row["name"], row["status"], row["current_proxy_name"]) == ("w1", "idle", None)
    sql("reserve_proxy", worker_id=row["id"])
    assert sql("available_workers")[0]["current_proxy_name"].startswith("proxy-")
    sql("UPDATE workers SET active = false")
    assert sql("available_workers") == []


def test_6_6_missions_at_the_writer(sql: Sql) -> None:
    """O9: none when the day is over."""
    assert sql("pending_in_writer") == []


def test_6_7_whether_it_should_end(sql: Sql) -> None:
    """O13: both counts are 0."""
    assert sql("should_it_end") == [{"queued_count": 0, "running_count": 0}]
    sql(INSERT)
    assert sql("should_it_end") == [{"queued_count": 1, "running_count": 0}]


def test_6_8_a_mission_with_details(day: Day, sql: Sql) -> None:
    """O18: the worker's name and URL, the proxy's name."""
    (row,) = sql("mission_with_details", mission_id=day.missions["stored"])
    assert (row["worker_name"], row["worker_url"]) == ("w1", day.worker.url)
    assert row["proxy_name"] == row["proxy_used"]


def test_the_pages_example_runs(day: Day, sql: Sql) -> None:
    """O1, O5: every statement of docs/pipelines/missions.md, as a reader would paste it."""
    page = Path(__file__).parents[3] / "docs" / "pipelines" / "missions.md"
    (example,) = re.findall(r"```sql\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    (made,) = sql(INSERT)
    text = re.sub(r"--.*", "", example).replace("= 7", f"= {made['id']}")
    text = text.replace("(7,", f"({made['id']},")
    statements = [one.strip() for one in text.split(";") if one.strip()]
    assert len(statements) == 8
    found = [sql(statement) for statement in statements]
    assert found[1][0]["status"] == "queued"
    assert [row["event"] for row in found[-1]] == [
        "mission_queued",
        "mission_canceled",
        "scrape_progress",
    ]
