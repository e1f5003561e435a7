"""Untrusted responses: garbage, HTML, endless and huge ones, text that cannot be stored."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate

import pytest
from starlette.responses import Response, StreamingResponse

from regente.contracts.worker import ScrapeJob, ScrapeStatus
from regente.fleet.registry import Fleet
from regente.http_client.client import CallFailed, CallFailure
from tests.support.peers import API_KEY, ScriptedWorker

MEGABYTE = 1024 * 1024


async def drip() -> AsyncIterator[bytes]:
    """Sends a byte now and then, without end."""
    for _ in itertools.count():
        yield b" "
        await asyncio.sleep(0.1)


async def silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def cut_off() -> AsyncIterator[bytes]:
    yield b'{"status": "compl'
    raise ConnectionResetError


async def asked(fleet: Fleet, answer: Callable[[], Response]) -> ScrapeJob:
    """The job as the client sees it from such a worker."""
    worker = ScriptedWorker()
    worker.fault_with("GET", "/scrape/x", answer)
    async with worker.served() as url:
        worker_id = await fleet.add_worker("w", url, API_KEY, "s.example.com")
        return await fleet.worker_client(await fleet.worker(worker_id)).job("x")


@pytest.mark.parametrize(
    ("answer", "failure", "says"),
    [
        (lambda: Response(b"\x93\x00\xff" * 3_500_000), CallFailure.PROTOCOL, "not JSON"),
        (lambda: Response(b"[" * 10 * MEGABYTE), CallFailure.PROTOCOL, "not JSON"),
        (lambda: Response(b"[" * 100_000), CallFailure.PROTOCOL, "not JSON"),
        (
            lambda: Response(b"<html><body>Bad gateway</body></html>"),
            CallFailure.PROTOCOL,
            "not JSON: <html>",
        ),
        (lambda: Response(b"[]"), CallFailure.PROTOCOL, "valid dictionary"),
        (lambda: Response(b"null"), CallFailure.PROTOCOL, "valid dictionary"),
        (lambda: Response(b""), CallFailure.PROTOCOL, "status: Field required"),
        (
            lambda: Response(b'{"status": "completed", "ads_count": NaN}'),
            CallFailure.PROTOCOL,
            "not JSON",
        ),
        (
            lambda: Response(b'{"status": "completed", "ads_count": 1e99}'),
            CallFailure.PROTOCOL,
            "ads_count",
        ),
        (
            lambda: Response(status_code=302, headers={"location": "http://127.0.0.1:9/"}),
            CallFailure.PROTOCOL,
            "answered 302",
        ),
        (lambda: Response("no\x00t \ufffd", 418), CallFailure.INVALID, "answered 418"),
        (lambda: Response("", 403), CallFailure.UNAUTHORIZED, "answered 403"),
    ],
    ids=[
        "garbage",
        "deep-10MB",
        "deep",
        "html",
        "list",
        "null",
        "empty",
        "nan",
        "float",
        "redirect",
        "teapot",
        "forbidden",
    ],
)
async def test_an_invalid_response_fails_with_its_kind_and_evidence(
    fleet: Fleet, answer: Callable[[], Response], failure: CallFailure, says: str
) -> None:
    """O8, O15, F8: never a crash, never a guess, never without end."""
    with pytest.raises(CallFailed) as failed:
        await asked(fleet, answer)
    assert failed.value.failure is failure
    assert says in failed.value.message
    assert len(failed.value.message) < 1000
    assert "\x00" not in failed.value.message


@pytest.mark.parametrize("settings", [0.3], indirect=True, ids=["0.3 s"])
@pytest.mark.parametrize("answer", [silence, drip])
async def test_an_endless_response_is_a_timeout(
    fleet: Fleet, answer: Callable[[], AsyncIterator[bytes]]
) -> None:
    """O8, O15, F8: also when a byte comes now and then."""
    with pytest.raises(CallFailed, match="no answer in time") as failed:
        await asked(fleet, lambda: StreamingResponse(answer()))
    assert failed.value.failure is CallFailure.TIMEOUT


async def test_a_connection_that_breaks_in_the_midst_is_told_as_such(fleet: Fleet) -> None:
    """O15, F8: half an answer is no answer."""
    with pytest.raises(CallFailed) as failed:
        await asked(fleet, lambda: StreamingResponse(cut_off()))
    assert failed.value.failure is CallFailure.BROKEN


async def test_a_status_that_carries_every_ad_is_read_without_keeping_them(fleet: Fleet) -> None:
    """O8: 20 MB of `data` before and after the relevant fields."""
    ads = json.dumps(
        [{"id": f"ad{n}", "text": "x" * 1000, "status": "failed"} for n in range(10_000)]
    )
    body = f'{{"data": {ads}, "status": "completed", "more": {ads}, "ads_count": 10000}}'.encode()
    job = await asked(fleet, lambda: Response(body))
    assert (job.status, job.ads_count) == (ScrapeStatus.COMPLETED, 10_000)


async def test_text_that_cannot_be_stored_is_made_so(fleet: Fleet) -> None:
    """O15: NUL and lone surrogates in a response do not cost a mission its record."""
    body = (
        rb'{"status": "failed", "problem": {"cause": "layout", "message": "a \u0000 b \ud800 c"}}'
    )
    job = await asked(fleet, lambda: Response(body))
    assert job.problem is not None
    job.problem.message.encode()
    assert "\x00" not in job.problem.message


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), ("-3", 0.0), ("1e9", 86_400.0), ("soon", None), ("nan", None), (None, None)],
)
async def test_retry_after_is_read_with_care(
    fleet: Fleet, value: str | None, seconds: float | None
) -> None:
    """O15: seconds, capped at a day; nonsense counts as missing."""
    headers = {"retry-after": value} if value is not None else {}
    with pytest.raises(CallFailed) as failed:
        await asked(fleet, lambda: Response("slowly", 429, headers))
    assert (failed.value.failure, failed.value.retry_after) == (CallFailure.THROTTLED, seconds)


async def test_retry_after_may_be_a_date_and_counts_from_the_servers_own(fleet: Fleet) -> None:
    """O15."""
    headers = {"retry-after": formatdate(time.time() + 30, usegmt=True)}
    with pytest.raises(CallFailed) as failed:
        await asked(fleet, lambda: Response("slowly", 429, headers))
    assert failed.value.retry_after == pytest.approx(30, abs=3)


async def test_a_job_id_cannot_lead_to_another_address(fleet: Fleet) -> None:
    """O8: a job id is untrusted."""
    worker = ScriptedWorker()
    async with worker.served() as url:
        client = fleet.worker_client(
            await fleet.worker(await fleet.add_worker("w", url, API_KEY, "s.example.com"))
        )
        with pytest.raises(CallFailed) as failed:
            await client.job("../session?x=#")
    assert failed.value.failure is CallFailure.MISSING
    assert all(path.startswith("/scrape/") for _, path in worker.calls)
