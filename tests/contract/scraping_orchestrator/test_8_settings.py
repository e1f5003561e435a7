"""Section 8: the parameters and their values."""

from __future__ import annotations

from dataclasses import asdict

from regente.fleet.config import FleetConfig
from regente.pipelines.missions.settings import MissionSettings
from tests.contract.scraping_orchestrator.day import Day


def test_8_1_what_a_user_may_change() -> None:
    """O16: `session_limit` 5, `max_retries` 2."""
    assert (MissionSettings().session_limit, MissionSettings().max_retries) == (5, 2)


def test_8_2_the_fixed_parameters() -> None:
    """O16: 180 s, 100 min, 10 s, 30 s, 3 failures; the loop of 2.3 every 5 s."""
    config = asdict(FleetConfig())
    assert config["timeout_session_seconds"] == 180
    assert config["timeout_job_seconds"] == 100 * 60
    assert config["polling_session_seconds"] == 10
    assert config["polling_job_seconds"] == 30
    assert config["polling_orchestrator_seconds"] == 5
    assert config["max_proxy_failures"] == 3


def test_8_3_the_fixed_parameters_of_a_scrape(day: Day) -> None:
    """O8: `sort_by`, `max_ads`, `batch_size`, `force_refresh`, as they were sent."""
    request = day.worker.sent("POST", "/scrape")[0]
    assert request["filters"]["sort_by"] == "qtd_ads"
    assert request["options"] == {"max_ads": "all", "batch_size": 150}
    assert {one["force_refresh"] for one in day.worker.sent("POST", "/session")} == {True}


def test_8_4_the_parameters_of_the_writer(day: Day) -> None:
    """O10: `table`, `schema`, `operation`, `conflict_key`, `json_path`, as they were sent."""
    request = day.writer.sent("POST", "/process")[0]
    assert request["config"] == {
        "table": "ads",
        "schema": "public",
        "operation": "upsert",
        "conflict_key": "id",
    }
    assert request["source"]["json_path"] == "ads"
