"""Examines a Writer: the checks in their order. Leaves the same two rows in the table each time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_hex
from typing import Any

from regente.conformance import writer_job as job
from regente.conformance import writer_refusals as refusals
from regente.conformance.checks import Check, run_checks
from regente.conformance.http import Reply, Service, checked_url, open_service
from regente.conformance.keys import expect_locked
from regente.conformance.report import Report
from regente.conformance.source import LocalSource, local_source
from regente.conformance.writer_context import WriterContext, WriterOptions

_REFUSED = "9.3"
_EXAMPLE_URL = "http://127.0.0.1/conformance.json"


async def examine_writer(options: WriterOptions) -> Report:
    """Run every check, in order. Raises ValueError for options that no request can carry."""
    checks = writer_checks(options)
    token = token_hex(16)
    # A source's query may be its signature, so it is secret.
    secrets = (options.api_key, token, (options.source_url or "").partition("?")[2])
    async with (
        open_service(options.url, options.api_key, options.request_seconds, secrets) as service,
        _source(options) as local,
    ):
        findings = await run_checks(
            checks, WriterContext(options, service, local, token), secrets=secrets
        )
    return Report("writer", service.url, findings)


@asynccontextmanager
async def _source(options: WriterOptions) -> AsyncIterator[LocalSource | None]:
    if options.source_url:
        checked_url(options.source_url.partition("?")[0])
        yield None
        return
    async with local_source(options.conflict_key) as source:
        yield source


def writer_checks(options: WriterOptions) -> tuple[Check[WriterContext], ...]:
    return (*_locked_routes(options), *_JOB, *_refused_payloads(options), *_REFUSALS)


_JOB = (
    Check("POST /process takes the job_id it is given", "9.2", job.is_accepted),
    Check("POST /process names a status", "9.2", job.names_its_status),
    Check("job status is one of the four", "9.2, 5.3 (3.2)", job.says_known_values),
    Check("job ends, partial for a bad row", "5.3 (3.2)", job.ends),
    Check("status has every field", "9.2", job.has_every_field),
    Check("progress adds up", "9.2", job.counts_add_up),
    Check("failed_items name the bad row", "9.2", job.names_failed_rows),
    Check("source.headers reach the source", "9.2", job.sends_source_headers),
    Check("the same job_id twice is one job", "9.2", job.is_one_job),
    Check("POST /process without a job_id gives one", "5.3 (3.1.2)", job.names_its_own_job),
)
_REFUSALS = (
    Check("status of an unknown job is 404", _REFUSED, refusals.knows_no_job),
    Check("unknown table is refused", _REFUSED, refusals.refuses_unknown_table),
    Check("source that is gone fails the job", "5.3 (3.2)", refusals.fails_without_source),
    Check("oversize body is 413", _REFUSED, refusals.refuses_oversize, required=False),
)


def _locked_routes(options: WriterOptions) -> tuple[Check[WriterContext], ...]:
    payload = options.payload(_EXAMPLE_URL)
    requests: dict[str, Callable[[Service], Awaitable[Reply]]] = {
        "POST /process": lambda service: service.post("/process", payload),
        "GET /status/{job_id}": lambda service: service.get("/status/none"),
    }
    healthy = Check("GET /health is healthy without a key", "9.2", refusals.is_healthy)
    return (
        healthy,
        *(
            Check(f"401 without the key: {route}", "9.2, 9.3", partial(_locked, request))
            for route, request in requests.items()
        ),
    )


async def _locked(request: Callable[[Service], Awaitable[Reply]], context: WriterContext) -> str:
    return await expect_locked(context.service, request)


def _refused_payloads(options: WriterOptions) -> tuple[Check[WriterContext], ...]:
    good = options.payload(_EXAMPLE_URL)
    bad: dict[str, Any] = {
        "no config": {"source": good["source"]},
        "no source": {"config": good["config"]},
        "no table": {
            **good,
            "config": {name: value for name, value in good["config"].items() if name != "table"},
        },
        "no url": {**good, "source": {"type": "url", "json_path": "ads"}},
        "unknown operation": {**good, "config": {**good["config"], "operation": "truncate"}},
    }
    checks = [
        _refused(what, partial(refusals.refuses, payload=payload)) for what, payload in bad.items()
    ]
    return (*checks, _refused("not JSON", partial(refusals.refuses, text='{"config": ')))


def _refused(what: str, run: Callable[[WriterContext], Awaitable[str]]) -> Check[WriterContext]:
    return Check(f"refuses a job: {what}", _REFUSED, run)


__all__ = ["WriterOptions", "examine_writer", "writer_checks"]
