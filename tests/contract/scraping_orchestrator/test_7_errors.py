"""Section 7: the error codes, which retry, and what a failure costs the proxy."""

from __future__ import annotations

import pytest

from regente.pipelines.missions.failures import EXHAUSTED, ErrorCode, Phase
from tests.contract.scraping_orchestrator.conftest import Sql
from tests.contract.scraping_orchestrator.day import Day

CODES = "100 101 102 103 104 200 201 202 203 300 301 302 303 304 400 401 500 501 502"
RETRIED = "100 101 102 103 200 201 202 300 301 302 303"


def test_7_1_the_codes(day: Day) -> None:
    """O15: the nineteen of the document, and no other."""
    assert [code.value for code in ErrorCode] == [f"ERROR{number}" for number in CODES.split()]


@pytest.mark.parametrize("code", ErrorCode)
def test_7_2_which_may_be_retried(code: ErrorCode) -> None:
    """O15: ERROR1xx except 104, ERROR2xx except 203, ERROR300 to 303."""
    assert code.may_retry == (code.value.removeprefix("ERROR") in RETRIED.split())


def test_7_2_what_exhausted_retries_become() -> None:
    """O15: `error_code = X04 | X03` by phase."""
    assert {phase.value: code.value for phase, code in EXHAUSTED.items()} == {
        "session": "ERROR104",
        "scrape": "ERROR203",
        "writer": "ERROR304",
    }
    assert set(EXHAUSTED) == set(Phase)


def test_7_2_each_retry_is_logged_after_its_failure(day: Day, sql: Sql) -> None:
    """O15, O17: `retry_triggered` with attempt and code, ERROR200 and ERROR201; then ERROR203."""
    log = sql(
        "SELECT event, details FROM mission_logs WHERE mission_id = :mission_id "
        "AND event IN ('scrape_failed', 'retry_triggered', 'mission_failed') ORDER BY timestamp",
        mission_id=day.missions["exhausted"],
    )
    assert [row["event"] for row in log] == [
        "scrape_failed",
        "retry_triggered",
        "scrape_failed",
        "retry_triggered",
        "scrape_failed",
        "mission_failed",
    ]
    assert [row["details"]["error_code"] for row in log] == [
        "ERROR200",
        "ERROR200",
        "ERROR201",
        "ERROR201",
        "ERROR200",
        "ERROR203",
    ]
    assert [row["details"]["attempt"] for row in log if row["event"] == "retry_triggered"] == [1, 2]


def test_7_2_a_session_that_will_not_start_costs_no_mission_a_retry(day: Day, sql: Sql) -> None:
    """O15: the stuck session of this day is in the worker's log, ERROR102."""
    (row,) = sql(
        "SELECT details FROM mission_logs WHERE event = 'session_failed' AND mission_id IS NULL"
    )
    assert row["details"]["error_code"] == "ERROR102"
    retried = sql("SELECT details FROM mission_logs WHERE event = 'retry_triggered'")
    assert "session" not in {row["details"]["phase"] for row in retried}


def test_7_3_rotation_after_a_failure(day: Day, sql: Sql) -> None:
    """O4: the document's statements: count, release, log, reserve another."""
    (worker,) = sql("SELECT id FROM workers")
    (before,) = sql("reserve_proxy", worker_id=worker["id"])
    sql("blame_current_proxy", worker_id=worker["id"])
    sql("release_current_proxy", worker_id=worker["id"])
    sql("log_rotation", mission_id=day.missions["stored"])
    (after,) = sql("SELECT * FROM proxies WHERE id = :id", id=before["id"])
    assert after["fail_count"] == before["fail_count"] + 1
    assert after["in_use_by_worker_id"] is None
    (entry,) = sql(
        "SELECT details FROM mission_logs WHERE mission_id = :id AND event = 'proxy_rotated'",
        id=day.missions["stored"],
    )
    assert entry["details"] == {"old_proxy": "...", "reason": "ERROR101"}
