"""One job from its first page to its published results, with page retries and deduplicated ads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from regente.contracts.worker import Cause, Filters
from regente.services.worker.jobs import Job, complete
from regente.services.worker.settings import WorkerSettings
from regente.services.worker.source import Ad, Page, SourceFailed, SourceSession
from regente.services.worker.storage import ResultsDraft


class SessionStuck(Exception):
    """The session made no progress for `stuck_seconds`."""


@dataclass(slots=True)
class _Deduplicator:
    """Passes each ad once, up to `limit` ads."""

    limit: int | None
    passed: int = 0
    duplicates: int = 0
    _seen: set[str] = field(default_factory=set)

    def new_ads(self, page: Page) -> list[Ad]:
        fresh = []
        for ad in page.ads:
            if self.full:
                break
            if ad["id"] in self._seen:
                self.duplicates += 1
                continue
            self._seen.add(ad["id"])
            self.passed += 1
            fresh.append(ad)
        return fresh

    @property
    def full(self) -> bool:
        return self.limit is not None and self.passed >= self.limit


async def scrape(
    job: Job, session: SourceSession, draft: ResultsDraft, settings: WorkerSettings
) -> None:
    """Read all pages into the draft. Raises SourceFailed, SessionStuck, or the draft's OSError."""
    limit = job.request.options.max_ads
    deduplicator = _Deduplicator(None if limit == "all" else max(0, limit))
    page_size, cursor = job.request.options.batch_size, None
    while True:
        page = await _read_page(session, job.request.filters, page_size, cursor, settings)
        draft.add(deduplicator.new_ads(page))
        job.ads_count, job.duplicates = deduplicator.passed, deduplicator.duplicates
        if page.total is not None:
            job.expected_count = page.total
        job.progress_pct = _progress(deduplicator, job.expected_count)
        cursor = _advance(cursor, page)
        if cursor is None or deduplicator.full:
            return
        await asyncio.sleep(settings.page_delay_seconds)


async def publish(job: Job, draft: ResultsDraft) -> None:
    summary = {
        "job_id": job.job_id,
        "ads_count": job.ads_count,
        "duplicates": job.duplicates,
        "expected_count": job.expected_count,
        "filters": job.request.filters.model_dump(mode="json"),
    }
    await draft.publish(summary)
    complete(job, summary)


def _advance(cursor: str | None, page: Page) -> str | None:
    if page.next_cursor is not None and page.next_cursor == cursor:
        raise SourceFailed(Cause.LAYOUT, "the page names itself as its next page")
    if page.next_cursor is not None and not page.ads:
        raise SourceFailed(Cause.LAYOUT, "a page without ads has a next page")
    return page.next_cursor


def _progress(deduplicator: _Deduplicator, expected: int | None) -> float | None:
    wanted = (
        min(value for value in (expected, deduplicator.limit) if value is not None)
        if (expected or deduplicator.limit)
        else None
    )
    return round(min(99.0, 100.0 * deduplicator.passed / wanted), 1) if wanted else None


async def _read_page(
    session: SourceSession,
    filters: Filters,
    page_size: int,
    cursor: str | None,
    settings: WorkerSettings,
) -> Page:
    try:
        async with asyncio.timeout(settings.stuck_seconds):
            async for attempt in _retrying(settings):
                with attempt:
                    return await session.read_page(filters, page_size, cursor)
    except TimeoutError:
        raise SessionStuck(f"no page came for {settings.stuck_seconds:g} s") from None
    except SourceFailed as failed:
        if failed.timed_out:
            raise SessionStuck(f"no page came in {settings.page_attempts} tries") from None
        raise
    raise AssertionError("a page is read or fails")


def _retrying(settings: WorkerSettings) -> AsyncRetrying:
    backoff = wait_random_exponential(
        multiplier=settings.backoff_seconds, max=settings.max_backoff_seconds
    )

    def wait(state: RetryCallState) -> float:
        asked = _failure(state).problem.retry_after
        return backoff(state) if asked is None else asked

    def is_retryable(error: BaseException) -> bool:
        if not isinstance(error, SourceFailed) or not error.transient:
            return False
        return (error.problem.retry_after or 0) <= settings.throttle_patience_seconds

    return AsyncRetrying(
        stop=stop_after_attempt(settings.page_attempts),
        wait=wait,
        retry=retry_if_exception(is_retryable),
        reraise=True,
    )


def _failure(state: RetryCallState) -> SourceFailed:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, SourceFailed)
    return error
