"""Examines a Worker: the checks in their order. Ends the session that it made."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from regente.conformance import worker_scrape as scrape
from regente.conformance import worker_session as session
from regente.conformance.checks import Check, run_checks
from regente.conformance.http import Reply, Service, checked_url, open_service
from regente.conformance.keys import expect_locked
from regente.conformance.report import Report
from regente.conformance.results import result_url
from regente.conformance.worker_context import WorkerContext, WorkerOptions

_LOCKED = "9.1, 9.3"
_REFUSED = "9.3"


async def examine_worker(options: WorkerOptions) -> Report:
    """Run every check, in order. Raises ValueError for options that no request can carry."""
    checks = worker_checks(options)
    if options.storage_domain:
        checked_url(result_url(options.storage_domain, "job"))
    secrets = (options.api_key, options.proxy_password or "")
    async with open_service(
        options.url, options.api_key, options.request_seconds, secrets
    ) as service:
        context = WorkerContext(options, service)
        try:
            findings = await run_checks(checks, context, secrets=secrets)
        finally:
            await service.delete("/session")
    return Report("worker", service.url, findings)


def worker_checks(options: WorkerOptions) -> tuple[Check[WorkerContext], ...]:
    return (
        *_locked_routes(options),
        *_SESSION,
        *_SCRAPE,
        *_refused_payloads(options),
        *_LATER,
        *_END,
    )


_SESSION = (
    Check("scrape without a session is refused", "9.1", session.refuses_scrape_without_session),
    Check("POST /session answers 200", "9.1", session.starts),
    Check("session status is one of the nine", "9.1, 5.2 (2.2.5)", session.says_known_values),
    Check("session becomes ready", "5.2 (2.2.5)", session.becomes_ready),
)
_SCRAPE = (
    Check("POST /scrape gives a job_id", "9.1, 5.2 (2.4.1)", scrape.is_accepted),
    Check("job status is one of the eight", "9.1, 5.2 (2.4.4)", scrape.says_known_values),
    Check("job is done", "5.2 (2.4.4)", scrape.is_done),
    Check("ads_count is a number", "9.1", scrape.counts_ads),
    Check("result document holds ads_count ads", "5.2 (2.5.1)", scrape.stores_its_result),
    Check("status of an unknown job is 404", _REFUSED, scrape.knows_no_job),
    Check("cancel of an unknown job is 404", _REFUSED, scrape.cancels_no_unknown_job),
)
_LATER = (
    Check("oversize body is 413", _REFUSED, scrape.refuses_oversize, required=False),
    Check(
        "Idempotency-Key is honoured", "extension", scrape.honours_idempotency_key, required=False
    ),
    Check("cancel answers 200 and the job is cancelled", "9.1, 5.4", scrape.cancels),
)
_END = (
    Check("DELETE /session answers 200", "9.1", session.ends),
    Check("DELETE /session answers 200 again", "9.1", session.ends_twice),
)


def _locked_routes(options: WorkerOptions) -> tuple[Check[WorkerContext], ...]:
    opening, scraping = options.session_payload(), options.scrape_payload()
    requests: dict[str, Callable[[Service], Awaitable[Reply]]] = {
        "POST /session": lambda service: service.post("/session", opening),
        "GET /session/status": lambda service: service.get("/session/status"),
        "DELETE /session": lambda service: service.delete("/session"),
        "POST /scrape": lambda service: service.post("/scrape", scraping),
        "GET /scrape/{job_id}": lambda service: service.get("/scrape/scrape_none"),
        "POST /scrape/{job_id}/cancel": lambda service: service.post("/scrape/scrape_none/cancel"),
    }
    return tuple(
        Check(f"401 without the key: {route}", _LOCKED, partial(_locked, request))
        for route, request in requests.items()
    )


async def _locked(request: Callable[[Service], Awaitable[Reply]], context: WorkerContext) -> str:
    return await expect_locked(context.service, request)


def _refused_payloads(options: WorkerOptions) -> tuple[Check[WorkerContext], ...]:
    good = options.scrape_payload()
    reversed_dates = {"start": "2025-01-16", "end": "2025-01-15"}
    without_dates = {name: value for name, value in good["filters"].items() if name != "date_range"}
    bad: dict[str, Any] = {
        "reversed dates": _with_filters(good, date_range=reversed_dates),
        "unknown format": _with_filters(good, format="hologram"),
        "empty languages": _with_filters(good, languages=[]),
        "no date_range": {**good, "filters": without_dates},
        "no filters": {"options": good["options"]},
    }
    checks = [
        _refused(what, partial(scrape.refuses, payload=payload)) for what, payload in bad.items()
    ]
    return (*checks, _refused("not JSON", partial(scrape.refuses, text='{"filters": ')))


def _refused(what: str, run: Callable[[WorkerContext], Awaitable[str]]) -> Check[WorkerContext]:
    return Check(f"refuses a scrape: {what}", _REFUSED, run)


def _with_filters(payload: dict[str, Any], **changed: Any) -> dict[str, Any]:
    changed_payload = copy.deepcopy(payload)
    changed_payload["filters"].update(changed)
    return changed_payload


__all__ = ["WorkerOptions", "examine_worker", "worker_checks"]
