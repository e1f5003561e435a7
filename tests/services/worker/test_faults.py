"""O21: how the worker reacts to each fault: whether it retries, and which cause it reports."""

from __future__ import annotations

import gzip
from datetime import date
from typing import Any

import pytest

from regente.contracts.worker import Cause, DateRange, Filters
from regente.services.sandbox import FaultKind, Sandbox
from regente.services.worker.ad_library import MAX_PAGE_BYTES, AdLibrary
from regente.services.worker.source import SourceFailed
from tests.services.filters import filters
from tests.services.worker.conftest import Client, StartWorker
from tests.services.writer.source_server import SourceServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

WANTED = filters("2025-01-10", "2025-01-12")


@pytest.mark.parametrize(
    ("fault", "scope"),
    [
        (FaultKind.UNAVAILABLE, {"status": 500}),
        (FaultKind.TRUNCATED, {}),
        (FaultKind.CUT_OFF, {}),
        (FaultKind.THROTTLED, {"retry_after": 0}),
        (FaultKind.PROXY_RESET, {}),
        (FaultKind.LAYOUT, {}),
        (FaultKind.DRIP, {"seconds": 0.5}),
    ],
)
async def test_a_transient_fault_is_retried(
    sandbox: Sandbox, worker: Client, fault: FaultKind, scope: dict[str, Any]
) -> None:
    await worker.ready_session(sandbox.proxies[0])
    sandbox.break_with(fault, count=2, **scope)
    done = await worker.finished(await worker.start(WANTED, batch_size=20))
    assert (done["status"], done["ads_count"], done["duplicates"]) == (
        "completed",
        sandbox.total(WANTED),
        0,
    )
    assert sandbox.faults.struck[fault] == 2


@pytest.mark.parametrize(
    ("fault", "scope", "problem", "session"),
    [
        (FaultKind.UNAVAILABLE, {"status": 502}, {"cause": "target", "http_status": 502}, "ready"),
        (FaultKind.CUT_OFF, {}, {"cause": "target"}, "ready"),
        (FaultKind.TRUNCATED, {}, {"cause": "layout"}, "ready"),
        (FaultKind.LAYOUT, {}, {"cause": "layout"}, "ready"),
        (
            FaultKind.THROTTLED,
            {"retry_after": 90},
            {"cause": "throttled", "http_status": 429, "retry_after": 90},
            "ready",
        ),
        (FaultKind.BLOCKED, {}, {"cause": "blocked", "http_status": 403}, "disconnected"),
        (FaultKind.PROXY_407, {}, {"cause": "proxy", "http_status": 407}, "disconnected"),
        (FaultKind.PROXY_451, {}, {"cause": "proxy", "http_status": 451}, "disconnected"),
        (FaultKind.PROXY_REFUSED, {}, {"cause": "proxy"}, "disconnected"),
        (FaultKind.PROXY_RESET, {}, {"cause": "proxy"}, "disconnected"),
    ],
)
async def test_a_lasting_fault_fails_the_job_with_its_cause(
    sandbox: Sandbox,
    worker: Client,
    fault: FaultKind,
    scope: dict[str, Any],
    problem: dict[str, Any],
    session: str,
) -> None:
    await worker.ready_session(sandbox.proxies[0])
    sandbox.break_with(fault, **scope)
    job_id = await worker.start(WANTED)
    done = await worker.finished(job_id)
    assert done["status"] == "failed"
    assert done["problem"] | problem == done["problem"]
    assert (await worker.session()).status == session
    assert (await worker.results(job_id)).status_code == 404


async def test_a_throttled_job_waits_for_retry_after(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    sandbox.break_with(FaultKind.THROTTLED, retry_after=90)
    await worker.finished(await worker.start(WANTED))
    assert sandbox.faults.struck[FaultKind.THROTTLED] == 1


@pytest.mark.parametrize(
    "timeouts", [{"stuck_seconds": 1.5}, {"request_timeout_seconds": 1.5}], ids=["stuck", "timeout"]
)
async def test_a_job_that_gets_no_page_leaves_a_stuck_session_and_a_new_one_works(
    sandbox: Sandbox, start_worker: StartWorker, timeouts: dict[str, float]
) -> None:
    sandbox.break_with(FaultKind.STUCK_SESSION, count=1)
    async with start_worker(**timeouts) as worker:
        await worker.ready_session(sandbox.proxies[0])
        done = await worker.finished(await worker.start(WANTED))
        session = await worker.session()
        assert (done["status"], done["problem"]["cause"]) == ("failed", "target")
        assert (session.status, session.problem and session.problem.cause) == ("stuck", "target")
        await worker.ready_session(sandbox.proxies[0])
        assert (await worker.finished(await worker.start(WANTED)))["ads_count"] == sandbox.total(
            WANTED
        )


async def test_a_session_whose_proxy_is_lost_takes_no_more_jobs_until_it_is_replaced(
    sandbox: Sandbox, worker: Client
) -> None:
    first, second = sandbox.proxies
    await worker.ready_session(first)
    sandbox.break_with(FaultKind.PROXY_REFUSED, proxy=first.name)
    await worker.finished(await worker.start(WANTED))
    await worker.ready_session(second)
    assert (await worker.finished(await worker.start(WANTED)))["ads_count"] == sandbox.total(WANTED)


@pytest.mark.parametrize(
    ("page", "encoding", "told"),
    [
        (b" " * (MAX_PAGE_BYTES + 1), "identity", "a page of more than"),
        (gzip.compress(b" " * (MAX_PAGE_BYTES * 10)), "gzip", "a page of more than"),
        (
            b'<main id="library" data-total="' + b"9" * 5_000 + b'"></main><nav></nav>',
            "identity",
            "not a number",
        ),
    ],
    ids=["large", "inflated", "a long number"],
)
async def test_a_page_made_to_fill_the_worker_is_refused(
    page: bytes, encoding: str, told: str
) -> None:
    """F8, F15: 200 kB of gzip would be 200 MB; integers have at most 4,300 digits in Python."""
    async with SourceServer().running() as target:
        page_url = target.serve(page, content_encoding=encoding, content_type="text/html")
        library = AdLibrary(target.url, timeout_seconds=30, connect_timeout_seconds=10).open(None)
        days = DateRange(start=date(2025, 1, 1), end=date(2025, 1, 1))
        wanted = Filters(date_range=days, format="all", languages=["pt"])
        with pytest.raises(SourceFailed, match=told) as failed:
            await library.read_page(wanted, 50, page_url)
        await library.close()
        assert failed.value.problem.cause is Cause.LAYOUT
