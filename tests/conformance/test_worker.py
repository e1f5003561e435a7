"""Each way in which a worker can break its contract fails exactly the check for it."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from fastapi import Response

from regente.asgi.server import serving
from regente.conformance import Report, Verdict, WorkerOptions, examine_worker
from tests.conformance.worker_app import (
    ADS,
    KEY,
    ROUTES,
    WorkerApp,
    deep,
    garbage,
    hang,
    html,
    huge,
)

PASSWORD = "proxy-pass-7f3a"
DAY = date(2025, 1, 15)


async def examine(worker: WorkerApp, **changed: Any) -> Report:
    async with serving(worker.app(), drain_seconds=1) as url:
        options: dict[str, Any] = {
            "url": url,
            "api_key": KEY,
            "start": DAY,
            "end": DAY,
            "proxy_server": "proxy.example.com:8080",
            "proxy_username": "user",
            "proxy_password": PASSWORD,
            "storage_domain": f"{url}/storage",
            "timeout_seconds": 5.0,
            "request_seconds": 2.0,
            "oversize_bytes": 2 << 20,
        }
        return await examine_worker(WorkerOptions(**{**options, **changed}))


def broken(*faults: str) -> WorkerApp:
    return WorkerApp(frozenset(faults))


async def test_a_correct_worker_passes_every_check() -> None:
    """O21: the contract of 9.1 and 9.3, from the first 401 to the second DELETE."""
    report = await examine(WorkerApp())
    assert {finding.verdict for finding in report.findings} == {Verdict.PASS}, report.failed
    assert report.conformant
    assert len(report.findings) == 28


async def test_the_payloads_are_those_of_the_contract() -> None:
    """O6, O8: session and scrape requests, byte for byte."""
    worker = WorkerApp()
    await examine(worker, media_format="video", languages=("pt", "en"))
    proxy = {"server": "proxy.example.com:8080", "username": "user", "password": PASSWORD}
    assert worker.sessions[-1] == {"force_refresh": True, "proxy": proxy}
    assert json.loads(worker.scrapes[0]) == {
        "filters": {
            "date_range": {"start": "2025-01-15", "end": "2025-01-15"},
            "format": "video",
            "sort_by": "qtd_ads",
            "languages": ["pt", "en"],
        },
        "options": {"max_ads": "all", "batch_size": 150},
    }


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("session 201", "POST /session answers 200"),
        ("odd session status", "session status is one of the nine"),
        ("scrapes without a session", "scrape without a session is refused"),
        ("odd job status", "job status is one of the eight"),
        ("count is text", "ads_count is a number"),
        ("result is short", "result document holds ads_count ads"),
        ("result is cut", "result document holds ads_count ads"),
        ("unknown job is 200", "status of an unknown job is 404"),
        ("cancels what is unknown", "cancel of an unknown job is 404"),
        ("takes filters.date_range: value_error", "refuses a scrape: reversed dates"),
        ("takes filters.format: literal_error", "refuses a scrape: unknown format"),
        ("takes filters.languages: too_short", "refuses a scrape: empty languages"),
        ("takes filters.date_range: missing", "refuses a scrape: no date_range"),
        ("takes filters: missing", "refuses a scrape: no filters"),
        ("takes json_invalid: json_invalid", "refuses a scrape: not JSON"),
        ("a job has an id", "POST /scrape gives a job_id"),
        ("cancel is 202", "cancel answers 200 and the job is cancelled"),
        ("first end is 202", "DELETE /session answers 200"),
        ("cancel is ignored", "cancel answers 200 and the job is cancelled"),
        ("second end is 404", "DELETE /session answers 200 again"),
    ],
)
async def test_one_fault_fails_one_check(fault: str, check: str) -> None:
    """O21: each rule of 9.1 and 9.3 broken alone."""
    changed: dict[str, Any] = {"storage_domain": None} if fault == "count is text" else {}
    report = await examine(broken(fault), **changed)
    assert report.failed == (check,), {
        one.name: one.evidence for one in report.findings if one.verdict is Verdict.FAIL
    }
    assert not report.conformant


@pytest.mark.parametrize("route", [f"{method} {path}" for method, path in ROUTES])
async def test_an_open_route_is_named(route: str) -> None:
    """O21: 401 on every route."""
    report = await examine(WorkerApp(without_key=frozenset({route})))
    assert report.failed == (f"401 without the key: {route}",)


async def test_403_is_not_401() -> None:
    """O21: 9.3 requires 401."""
    report = await examine(WorkerApp(refused_with=403))
    assert report.failed == tuple(
        f"401 without the key: {method} {path}" for method, path in ROUTES
    )


@pytest.mark.parametrize("count", ["count is true", "count is missing"])
async def test_a_count_that_is_no_number_is_named(count: str) -> None:
    """O8: ads_count is a whole number when the job is completed."""
    report = await examine(broken(count), storage_domain=None)
    assert report.failed == ("ads_count is a number",)


@pytest.mark.parametrize(
    ("fault", "check"),
    [("no idempotency", "Idempotency-Key is honoured"), ("no size limit", "oversize body is 413")],
)
async def test_a_missing_option_is_no_failure(fault: str, check: str) -> None:
    """O21: extensions of the contract may be missing."""
    report = await examine(broken(fault))
    assert report.verdict_of(check) is Verdict.OPTIONAL_MISSING
    assert report.conformant


async def test_what_depends_on_a_session_is_skipped_without_one() -> None:
    """O6: a stuck session ends the wait at once, and the run continues."""
    report = await examine(broken("never ready"), timeout_seconds=60.0)
    assert report.failed == ("session becomes ready",)
    assert report.verdict_of("POST /scrape gives a job_id") is Verdict.SKIPPED
    assert report.verdict_of("DELETE /session answers 200") is Verdict.PASS
    assert not report.conformant


async def test_a_job_that_fails_is_named() -> None:
    """O8: `failed` is a known status but not a success."""
    report = await examine(broken("jobs fail"), timeout_seconds=60.0)
    assert report.failed == ("job is done",)


@pytest.mark.parametrize(
    ("reply", "evidence"),
    [
        (hang, "no complete answer within 1.5 s"),
        (html, "this is not JSON"),
        (garbage, "this is not JSON"),
        (deep, "this is not JSON"),
        (huge, "more than 1,048,576 bytes"),
    ],
)
async def test_a_broken_answer_is_evidence_and_the_run_goes_on(reply: Any, evidence: str) -> None:
    """O21: the run ends with a report for any response."""
    report = await examine(
        WorkerApp(replies={"GET /session/status": reply}),
        request_seconds=1.5 if reply is hang else 5.0,
    )
    assert report.failed == ("session status is one of the nine", "session becomes ready")
    assert all(
        evidence in finding.evidence
        for finding in report.findings
        if finding.verdict is Verdict.FAIL
    )
    assert report.findings[-1].verdict is Verdict.PASS


async def test_a_429_is_retried_after_its_retry_after() -> None:
    """O15: 429 with Retry-After does not break the contract."""
    worker, answers = WorkerApp(), [Response(status_code=429, headers={"retry-after": "1"})]

    async def limited() -> Response:
        worker.replies.clear()
        return answers.pop()

    worker.replies["POST /session"] = limited
    assert (await examine(worker)).conformant
    assert answers == []


async def test_an_unreachable_service_gets_a_report() -> None:
    """O21: a service that does not answer fails its checks without an exception."""
    options = WorkerOptions(
        "http://127.0.0.1:9", KEY, DAY, DAY, timeout_seconds=1.0, request_seconds=1.0
    )
    report = await examine_worker(options)
    assert "no answer: ConnectError" in report.findings[0].evidence
    assert not report.conformant


async def test_without_a_storage_domain_the_result_is_not_asked_for() -> None:
    """O9: the formula needs a domain; without one the check is optional."""
    report = await examine(WorkerApp(), storage_domain=None)
    assert report.verdict_of("result document holds ads_count ads") is Verdict.SKIPPED
    assert report.conformant


async def test_no_secret_is_in_the_report() -> None:
    """O21: a worker that repeats the proxy's password does not get it into the report."""
    report = await examine(WorkerApp(), proxy_server="p" * 90 + ".example.com:8080")
    text = str(report.as_json())
    assert "***" in text
    assert PASSWORD not in text
    assert PASSWORD[:8] not in text
    assert KEY not in text


async def test_every_finding_is_one_line() -> None:
    report = await examine(WorkerApp())
    assert all("\n" not in finding.evidence and finding.evidence for finding in report.findings)
    assert f"{ADS} ads" in next(
        one.evidence for one in report.findings if one.name.startswith("result")
    )
