"""Section 9: what is sent to workers and writers. `regente conformance` checks the other side."""

from __future__ import annotations

import re

from tests.contract.scraping_orchestrator.conftest import Sql
from tests.contract.scraping_orchestrator.day import Day

UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def test_9_1_create_a_session(day: Day) -> None:
    """O6: POST /session with `force_refresh` and the proxy, its password in plain text."""
    request = day.worker.sent("POST", "/session")[0]
    assert set(request) == {"force_refresh", "proxy"}
    server = request["proxy"].pop("server")
    assert re.fullmatch(r"proxy\.example\.com:800[012]", server)
    assert request["proxy"] == {"username": "user", "password": "a-password"}


def test_9_1_start_a_scrape(day: Day) -> None:
    """O8: POST /scrape with `filters` and `options`, and nothing else."""
    assert day.worker.sent("POST", "/scrape")[0] == {
        "filters": {
            "date_range": {"start": "2025-01-15", "end": "2025-01-15"},
            "format": "video",
            "sort_by": "qtd_ads",
            "languages": ["pt"],
        },
        "options": {"max_ads": "all", "batch_size": 150},
    }


def test_9_1_the_calls_of_a_worker_and_no_others(day: Day) -> None:
    """O6, O8, O12: the six of the document, each with `x-api-key` (else the peer answers 401)."""
    six = {
        ("POST", "/session"),
        ("GET", "/session/status"),
        ("DELETE", "/session"),
        ("POST", "/scrape"),
        ("GET", "/scrape/{job_id}"),
        ("POST", "/scrape/{job_id}/cancel"),
    }
    made = {
        (method, re.sub(r"/scrape/[^/]+", "/scrape/{job_id}", path))
        for method, path in day.worker.calls
    }
    assert made == six


def test_9_2_start_the_processing(day: Day, sql: Sql) -> None:
    """O10: POST /process with `job_id`, `config` and `source`; the `job_id` makes it repeatable."""
    request = day.writer.sent("POST", "/process")[0]
    assert set(request) == {"job_id", "config", "source"}
    assert re.fullmatch(UUID, request["job_id"])
    (row,) = sql("SELECT worker_data_url FROM missions WHERE id = :id", id=day.missions["stored"])
    source = {name: value for name, value in request["source"].items() if value}
    assert source == {"type": "url", "url": row["worker_data_url"], "json_path": "ads"}


def test_9_2_the_calls_of_a_writer_and_no_others(day: Day) -> None:
    """O10: POST /process, GET /status/{job_id}; GET /health is for tests."""
    made = {
        (method, re.sub(f"/status/{UUID}", "/status/{job_id}", path))
        for method, path in day.writer.calls
    }
    assert made <= {("POST", "/process"), ("GET", "/status/{job_id}"), ("GET", "/health")}
