"""Each way in which a writer can break its contract fails exactly the check for it."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI

from regente.asgi.server import serving
from regente.conformance import Report, Verdict, WriterOptions, examine_writer
from tests.conformance.worker_app import deep, garbage, hang, html, huge
from tests.conformance.writer_app import KEY, WriterApp


async def examine(writer: WriterApp, **changed: Any) -> Report:
    async with serving(writer.app(), drain_seconds=1) as url:
        options: dict[str, Any] = {
            "url": url,
            "api_key": KEY,
            "timeout_seconds": 5.0,
            "request_seconds": 2.0,
            "oversize_bytes": 2 << 20,
        }
        return await examine_writer(WriterOptions(**{**options, **changed}))


def broken(*faults: str) -> WriterApp:
    return WriterApp(frozenset(faults))


async def test_a_correct_writer_passes_every_check() -> None:
    """O22: the contract of 9.2 and 9.3, with one bad row."""
    report = await examine(WriterApp())
    assert {finding.verdict for finding in report.findings} == {Verdict.PASS}, report.failed
    assert report.conformant
    assert len(report.findings) == 23


async def test_the_payloads_are_those_of_the_contract() -> None:
    """O10: with a `job_id` and headers as in 9.2, and without as in 3.1.2."""
    writer = WriterApp()
    await examine(writer)
    whole = writer.requests[0]
    config = {"table": "ads", "schema": "public", "operation": "upsert", "conflict_key": "id"}
    assert set(whole) == {"job_id", "config", "source"}
    assert whole["config"] == config
    assert set(whole["source"]) == {"type", "url", "headers", "json_path"}
    plain = next(one for one in writer.requests if "job_id" not in one)
    assert plain == {
        "config": config,
        "source": {"type": "url", "url": whole["source"]["url"], "json_path": "ads"},
    }


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("health needs a key", "GET /health is healthy without a key"),
        ("health is ok", "GET /health is healthy without a key"),
        ("open POST /process", "401 without the key: POST /process"),
        ("open GET /status/{job_id}", "401 without the key: GET /status/{job_id}"),
        ("accepts without a status", "POST /process names a status"),
        ("odd status", "job status is one of the four"),
        ("no started_at", "status has every field"),
        ("ends soon", "status has every field"),
        ("processes more than there are", "progress adds up"),
        ("loses a row", "progress adds up"),
        ("counts in text", "progress adds up"),
        ("counts from one", "failed_items name the bad row"),
        ("failed without an error", "failed_items name the bad row"),
        ("drops source headers", "source.headers reach the source"),
        ("runs again", "the same job_id twice is one job"),
        ("unknown job is 200", "status of an unknown job is 404"),
        ("needs a job_id", "POST /process without a job_id gives one"),
        ("takes ", "refuses a job: not JSON"),
        ("takes config", "refuses a job: no config"),
        ("takes source", "refuses a job: no source"),
        ("takes config.table", "refuses a job: no table"),
        ("takes source.url", "refuses a job: no url"),
        ("takes config.operation", "refuses a job: unknown operation"),
        ("makes tables", "unknown table is refused"),
        ("a missing source is empty", "source that is gone fails the job"),
    ],
)
async def test_one_fault_fails_one_check(fault: str, check: str) -> None:
    """O22: each rule of 9.2 and 9.3 broken alone."""
    report = await examine(broken(fault))
    assert report.failed == (check,), {
        one.name: one.evidence for one in report.findings if one.verdict is Verdict.FAIL
    }
    assert not report.conformant


async def test_a_job_with_failed_rows_is_not_completed() -> None:
    """O10: `partial` tells the client to read failed_items."""
    report = await examine(broken("says completed"))
    assert report.failed == ("job ends, partial for a bad row", "progress adds up")


async def test_a_writer_that_names_jobs_itself_has_no_idempotency_key() -> None:
    """O22: the `job_id` of the request is the job's id."""
    report = await examine(broken("names jobs itself"))
    assert report.failed == (
        "POST /process takes the job_id it is given",
        "the same job_id twice is one job",
    )


async def test_an_unknown_table_may_be_refused_at_once() -> None:
    """O22: refused at once or by a failed job."""
    assert (await examine(broken("refuses tables at once"))).conformant


async def test_a_missing_option_is_no_failure() -> None:
    """O22: 413 is the service's own limit."""
    report = await examine(broken("no size limit"))
    assert report.verdict_of("oversize body is 413") is Verdict.OPTIONAL_MISSING
    assert report.conformant


async def test_a_given_source_is_used() -> None:
    """O22: a clean document ends `completed`; checks that need the built-in document are
    skipped."""
    source = FastAPI()

    @source.get("/data.json")
    def data() -> dict[str, Any]:
        return {"ads": [{"id": "a"}, {"id": "b"}]}

    writer = WriterApp()
    async with serving(source) as base:
        report = await examine(writer, source_url=f"{base}/data.json?signature=s3cr3t-signature")
    skipped = {finding.name for finding in report.findings if finding.verdict is Verdict.SKIPPED}
    assert skipped == {"failed_items name the bad row", "source.headers reach the source"}
    assert report.conformant
    assert writer.requests[0]["source"]["url"] == f"{base}/data.json?signature=s3cr3t-signature"
    assert "s3cr3t" not in str(report.as_json())


@pytest.mark.parametrize(
    ("reply", "evidence"),
    [
        (hang, "no complete answer within 0.5 s"),
        (html, "this is not JSON"),
        (garbage, "this is not JSON"),
        (deep, "this is not JSON"),
        (huge, "more than 8,388,608 bytes"),
    ],
)
async def test_a_broken_answer_is_evidence_and_the_run_goes_on(reply: Any, evidence: str) -> None:
    """O22: the run ends with a report for any response."""
    report = await examine(
        WriterApp(replies={"GET /status/{job_id}": reply}),
        request_seconds=0.5 if reply is hang else 5.0,
    )
    assert "job status is one of the four" in report.failed
    assert "job ends, partial for a bad row" in report.failed
    assert evidence in next(
        one.evidence for one in report.findings if one.name == "job status is one of the four"
    )
    assert report.verdict_of("refuses a job: not JSON") is Verdict.PASS
    assert KEY not in str(report.as_json())
