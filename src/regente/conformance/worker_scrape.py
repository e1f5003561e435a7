"""Checks of a Worker's scrape: accepted, followed to its end, counted, stored where the formula
says."""

from __future__ import annotations

import secrets
from typing import Any

from regente.conformance.checks import NotAsked, Unmet, Unproven
from regente.conformance.results import count_ads, result_url
from regente.conformance.watching import Watch
from regente.conformance.worker_bench import WorkerBench, job_id_of
from regente.conformance.worker_session import need_session
from regente.contracts.worker import IDEMPOTENCY_HEADER, ScrapeStatus

_CANCEL_ATTEMPTS = 3
_DONE = (ScrapeStatus.COMPLETED, ScrapeStatus.EMPTY)


async def is_accepted(bench: WorkerBench) -> str:
    need_session(bench)
    reply = (await bench.scrape()).expect_accepted()
    reply.document()
    bench.job_id = job_id_of(reply)
    if bench.job_id is None:
        raise Unmet(f"{reply}; expected a `job_id` of 1 to 100 characters")
    return str(reply)


async def says_known_values(bench: WorkerBench) -> str:
    if bench.job_id is None:
        raise Unproven("no scrape was accepted")
    bench.job = await bench.watch_job(bench.job_id)
    bench.job.expect_known_values()
    return str(bench.job)


async def is_done(bench: WorkerBench) -> str:
    job = _watched(bench)
    if job.final not in _DONE:
        problem = job.last.get("problem")
        why = f" (problem: {problem})" if problem else ""
        raise Unmet(
            f"{job}{why}; expected completed or empty within {bench.options.timeout_seconds:g} s"
        )
    return f"{job} after {job.seconds:.1f} s"


async def counts_ads(bench: WorkerBench) -> str:
    job = _done(bench)
    count = job.last.get("ads_count")
    shown = f"{job.sent} → {job.final}, ads_count {count!r}"
    if job.final == ScrapeStatus.EMPTY and count in (None, 0) and count is not False:
        return shown
    if not _is_count(count) or job.final == ScrapeStatus.EMPTY:
        raise Unmet(
            f"{shown}; expected "
            f"{'a whole number' if job.final == ScrapeStatus.COMPLETED else '0 or none'}"
        )
    return shown


async def stores_its_result(bench: WorkerBench) -> str:
    if bench.options.storage_domain is None:
        raise NotAsked("not asked for: give --storage-domain to have it read")
    job = _done(bench)
    if job.final == ScrapeStatus.EMPTY or bench.job_id is None:
        raise Unproven(
            "the scrape found no ads: choose dates, a format and languages that have some"
        )
    url = result_url(bench.options.storage_domain, bench.job_id)
    ads = await count_ads(bench.service.client, url, within_seconds=bench.options.timeout_seconds)
    if ads != job.last.get("ads_count"):
        raise Unmet(
            f"GET {url} → {ads:,} ads; the job said ads_count {job.last.get('ads_count')!r}"
        )
    return f"GET {url} → {ads:,} ads, as the job said"


def _watched(bench: WorkerBench) -> Watch:
    if bench.job is None:
        raise Unproven("no scrape was accepted")
    return bench.job


def _done(bench: WorkerBench) -> Watch:
    job = _watched(bench)
    if job.final not in _DONE:
        raise Unproven("no scrape was completed")
    return job


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# What is refused.


async def refuses(bench: WorkerBench, *, payload: Any = None, text: str | None = None) -> str:
    need_session(bench)
    await bench.settle()
    service = bench.service
    reply = await (
        service.post("/scrape", payload) if text is None else service.post_text("/scrape", text)
    )
    await bench.clear_away(reply)
    return str(reply.expect(400, 422))


async def refuses_oversize(bench: WorkerBench) -> str:
    need_session(bench)
    await bench.settle()
    reply = await bench.scrape(
        {**bench.options.scrape_payload(), "padding": "x" * bench.options.oversize_bytes}
    )
    await bench.clear_away(reply)
    return str(reply.expect(413))


async def knows_no_job(bench: WorkerBench) -> str:
    return str((await bench.status(_unknown())).expect(404))


async def cancels_no_unknown_job(bench: WorkerBench) -> str:
    return str((await bench.cancel(_unknown())).expect(404))


def _unknown() -> str:
    return f"scrape_{secrets.token_hex(8)}"


# What is asked for twice, or taken back.


async def honours_idempotency_key(bench: WorkerBench) -> str:
    need_session(bench)
    key = {IDEMPOTENCY_HEADER: f"conformance-{secrets.token_hex(8)}"}
    await bench.settle()
    first = await bench.scrape(headers=key)
    second = await bench.scrape(headers=key)
    for reply in (first, second):
        await bench.clear_away(reply)
    one, two = job_id_of(first), job_id_of(second)
    if one is None:
        raise Unproven(f"no scrape to repeat: {first}")
    if one != two:
        raise Unmet(f"the same Idempotency-Key twice: job {one}, then {second}")
    return f"the same Idempotency-Key twice: job {one} both times"


async def cancels(bench: WorkerBench) -> str:
    """A job may be done before the cancel comes: then another one is tried."""
    need_session(bench)
    for _ in range(_CANCEL_ATTEMPTS):
        await bench.settle()
        started = await bench.scrape()
        job_id = job_id_of(started)
        if job_id is None:
            raise Unproven(f"no scrape to cancel: {started}")
        cancel = (await bench.cancel(job_id)).expect(200)
        job = await bench.watch_job(job_id)
        if job.final == ScrapeStatus.CANCELLED:
            return f"{cancel}; {job}"
        if job.final not in _DONE or len(job.statuses) > 1:
            raise Unmet(f"{cancel}; {job}; expected cancelled")
    raise Unproven(
        f"{_CANCEL_ATTEMPTS} jobs were done before they could be cancelled: choose a longer scrape"
    )
