"""Section 4: the state machines of missions, workers and proxies."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from tests.contract.scraping_orchestrator.conftest import Sql
from tests.contract.scraping_orchestrator.day import Day

ROW = "SELECT * FROM missions WHERE id = :mission_id"


def test_4_1_completed(day: Day, sql: Sql) -> None:
    """O2, O11: `finished_at`, `checkpoint = 'finalizado'`, the URL of the data, the count."""
    (row,) = sql(ROW, mission_id=day.missions["stored"])
    assert (row["status"], row["checkpoint"], row["ads_count"]) == ("completed", "finalizado", 3)
    assert row["created_at"] <= row["queued_at"] <= row["started_at"] <= row["finished_at"]
    assert (row["worker_id"], row["proxy_used"]) != (None, None)
    assert row["error_code"] is None


def test_4_1_failed(day: Day, sql: Sql) -> None:
    """O2, O15: error + retries exhausted: `error_code`, `error_message`, `finished_at`."""
    (row,) = sql(ROW, mission_id=day.missions["exhausted"])
    assert (row["status"], row["error_code"], row["retry_count"]) == ("failed", "ERROR203", 2)
    assert row["error_message"]
    assert row["finished_at"]


@pytest.mark.parametrize("name", ["canceled running", "canceled waiting"])
def test_4_1_canceled(day: Day, sql: Sql, name: str) -> None:
    """O2, O12: from queued and from running: `finished_at`."""
    (row,) = sql(ROW, mission_id=day.missions[name])
    assert (row["status"], row["error_code"]) == ("canceled", None)
    assert row["finished_at"]


@pytest.mark.parametrize("status", ["running", "completed", "failed"])
def test_4_1_no_other_transition(day: Day, sql: Sql, status: str) -> None:
    """O2: what only work brings is refused by name; a completed mission stays completed."""
    queued = (
        "INSERT INTO missions (date_start, date_end, media_type, languages) "
        "VALUES ('2025-01-15', '2025-01-15', 'all', ARRAY['pt'])"
    )
    sql(queued)
    with pytest.raises(psycopg.Error) as refused:
        sql(f"UPDATE missions SET status = '{status}' WHERE status = 'queued'")
    assert refused.value.sqlstate == "RG001"
    assert "UPDATE missions SET status" in (refused.value.diag.message_hint or "")


def test_4_1_completed_is_final(day: Day, sql: Sql) -> None:
    """O2: the hint names what to do for another extraction."""
    with pytest.raises(psycopg.Error, match="cannot go from completed to queued") as refused:
        sql("queue", mission_id=day.missions["stored"])
    assert "INSERT another mission" in (refused.value.diag.message_hint or "")


def test_4_1_failed_may_be_queued_again(day: Day, sql: Sql) -> None:
    """O2, O15: with all its retries."""
    sql("queue", mission_id=day.missions["exhausted"])
    (row,) = sql(ROW, mission_id=day.missions["exhausted"])
    assert (row["status"], row["retry_count"], row["error_code"]) == ("queued", 0, None)


LEGAL = {
    "idle": {"initializing"},
    "initializing": {"ready", "error", "idle"},
    "ready": {"error", "idle"},  # and scraping, with a mission
    "error": {"idle"},
}
PATHS = {
    "idle": [],
    "initializing": ["initializing"],
    "ready": ["initializing", "ready"],
    "error": ["initializing", "error"],
}


@pytest.mark.parametrize("state", LEGAL)
@pytest.mark.parametrize("target", ["idle", "initializing", "ready", "error"])
def test_4_2_the_workers_states(sql: Sql, state: str, target: str) -> None:
    """O3: each transition of the table, and no other."""
    for step in PATHS[state]:
        sql(f"UPDATE workers SET status = '{step}'")
    if target in LEGAL[state] | {state}:
        assert sql(f"UPDATE workers SET status = '{target}' RETURNING status") == [
            {"status": target}
        ]
    else:
        with pytest.raises(psycopg.Error) as refused:
            sql(f"UPDATE workers SET status = '{target}'")
        assert refused.value.sqlstate == "RG001"


def test_4_2_at_the_end_the_workers_are_idle_without_proxy(day: Day, sql: Sql) -> None:
    """O3, O13: `*` → idle when the orchestrator closes."""
    assert sql("SELECT status, session_count, current_mission_id FROM workers") == [
        {"status": "idle", "session_count": 0, "current_mission_id": None}
    ]
    assert sql("SELECT FROM proxies WHERE in_use_by_worker_id IS NOT NULL") == []


def test_4_3_three_failures_deactivate_and_a_person_activates(sql: Sql) -> None:
    """O4: `fail_count >= 3` → inactive; activated by hand, `fail_count` is 0."""
    (proxy,) = sql("SELECT id FROM proxies ORDER BY name LIMIT 1")
    counts = []
    sql("UPDATE proxies SET fail_count = 0")
    for _ in range(3):
        (row,) = sql("count_a_failure", proxy_id=proxy["id"])
        counts.append((row["fail_count"], row["active"]))
    assert counts == [(1, True), (2, True), (3, False)]
    (row,) = sql(
        "UPDATE proxies SET active = true WHERE id = :proxy_id RETURNING fail_count",
        proxy_id=proxy["id"],
    )
    assert row["fail_count"] == 0


def test_4_3_a_new_session_has_another_proxy(sql: Sql) -> None:
    """O4: never the one of the session before, while another is free."""
    used = [row["proxy_name"] for row in sql("SELECT proxy_name FROM sessions ORDER BY id")]
    assert len(used) >= 3
    assert all(one != other for one, other in itertools.pairwise(used))
