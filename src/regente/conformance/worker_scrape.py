"""Checks of a Worker's scrape: accepted, polled to its end, counted, stored."""

from __future__ import annotations

import secrets
from typing import Any

from regente.conformance.checks import CheckFailed, CheckInconclusive, CheckSkipped
from regente.conformance.polling import StatusHistory
from regente.conformance.results import count_ads, result_url
from regente.conformance.worker_context import WorkerContext, job_id_of
from regente.conformance.worker_session import need_session
from regente.contracts.worker import IDEMPOTENCY_HEADER, ScrapeStatus

_CANCEL_ATTEMPTS = 3
_DONE = (ScrapeStatus.COMPLETED, ScrapeStatus.EMPTY)


async def is_accepted(context: WorkerContext) -> str:
    need_session(context)
    reply = (await context.scrape()).expect_accepted()
    reply.document()
    context.job_id = job_id_of(reply)
    if context.job_id is None:
        raise CheckFailed(f"{reply}; expected a `job_id` of 1 to 100 characters")
    return str(reply)


async def says_known_values(context: WorkerContext) -> str:
    if context.job_id is None:
        raise CheckInconclusive("no scrape was accepted")
    context.job = await context.poll_job(context.job_id)
    context.job.expect_known_values()
    return str(context.job)


async def is_done(context: WorkerContext) -> str:
    job = _polled(context)
    if job.final not in _DONE:
        problem = job.last.get("problem")
        why = f" (problem: {problem})" if problem else ""
        raise CheckFailed(
            f"{job}{why}; expected completed or empty within {context.options.timeout_seconds:g} s"
        )
    return f"{job} after {job.seconds:.1f} s"


async def counts_ads(context: WorkerContext) -> str:
    job = _done(context)
    count = job.last.get("ads_count")
    shown = f"{job.sent} → {job.final}, ads_count {count!r}"
    if job.final == ScrapeStatus.EMPTY and count in (None, 0) and count is not False:
        return shown
    if not _is_count(count) or job.final == ScrapeStatus.EMPTY:
        raise CheckFailed(
            f"{shown}; expected "
            f"{'a whole number' if job.final == ScrapeStatus.COMPLETED else '0 or none'}"
        )
    return shown


async def stores_its_result(context: WorkerContext) -> str:
    if context.options.storage_domain is None:
        raise CheckSkipped("not requested: give --storage-domain to read it")
    job = _done(context)
    if job.final == ScrapeStatus.EMPTY or context.job_id is None:
        raise CheckInconclusive(
            "the scrape found no ads: choose dates, a format and languages that have some"
        )
    url = result_url(context.options.storage_domain, context.job_id)
    ads = await count_ads(
        context.service.client, url, within_seconds=context.options.timeout_seconds
    )
    if ads != job.last.get("ads_count"):
        raise CheckFailed(
            f"GET {url} → {ads:,} ads; the job said ads_count {job.last.get('ads_count')!r}"
        )
    return f"GET {url} → {ads:,} ads, as the job said"


def _polled(context: WorkerContext) -> StatusHistory:
    if context.job is None:
        raise CheckInconclusive("no scrape was accepted")
    return context.job


def _done(context: WorkerContext) -> StatusHistory:
    job = _polled(context)
    if job.final not in _DONE:
        raise CheckInconclusive("no scrape was completed")
    return job


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# Refusals.


async def refuses(context: WorkerContext, *, payload: Any = None, text: str | None = None) -> str:
    need_session(context)
    await context.wait_until_ready()
    service = context.service
    reply = await (
        service.post("/scrape", payload) if text is None else service.post_text("/scrape", text)
    )
    await context.cancel_started(reply)
    return str(reply.expect(400, 422))


async def refuses_oversize(context: WorkerContext) -> str:
    need_session(context)
    await context.wait_until_ready()
    reply = await context.scrape(
        {**context.options.scrape_payload(), "padding": "x" * context.options.oversize_bytes}
    )
    await context.cancel_started(reply)
    return str(reply.expect(413))


async def knows_no_job(context: WorkerContext) -> str:
    return str((await context.status(_unknown())).expect(404))


async def cancels_no_unknown_job(context: WorkerContext) -> str:
    return str((await context.cancel(_unknown())).expect(404))


def _unknown() -> str:
    return f"scrape_{secrets.token_hex(8)}"


# Repeats and cancels.


async def honours_idempotency_key(context: WorkerContext) -> str:
    need_session(context)
    key = {IDEMPOTENCY_HEADER: f"conformance-{secrets.token_hex(8)}"}
    await context.wait_until_ready()
    first = await context.scrape(headers=key)
    second = await context.scrape(headers=key)
    for reply in (first, second):
        await context.cancel_started(reply)
    one, two = job_id_of(first), job_id_of(second)
    if one is None:
        raise CheckInconclusive(f"no scrape to repeat: {first}")
    if one != two:
        raise CheckFailed(f"the same Idempotency-Key twice: job {one}, then {second}")
    return f"the same Idempotency-Key twice: job {one} both times"


async def cancels(context: WorkerContext) -> str:
    """Cancel a job; when it ends first, try another one."""
    need_session(context)
    for _ in range(_CANCEL_ATTEMPTS):
        await context.wait_until_ready()
        started = await context.scrape()
        job_id = job_id_of(started)
        if job_id is None:
            raise CheckInconclusive(f"no scrape to cancel: {started}")
        cancel = (await context.cancel(job_id)).expect(200)
        job = await context.poll_job(job_id)
        if job.final == ScrapeStatus.CANCELLED:
            return f"{cancel}; {job}"
        if job.final not in _DONE or len(job.statuses) > 1:
            raise CheckFailed(f"{cancel}; {job}; expected cancelled")
    raise CheckInconclusive(
        f"{_CANCEL_ATTEMPTS} jobs ended before they could be cancelled: choose a longer scrape"
    )
