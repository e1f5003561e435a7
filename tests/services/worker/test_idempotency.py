"""O21: the same key twice is one job, also after a restart."""

from __future__ import annotations

import asyncio
import re

import pytest

from regente.services.sandbox import Sandbox
from tests.services.filters import filters, payload
from tests.services.worker.conftest import Client, StartWorker

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = {"Idempotency-Key": "mission-7-attempt-1"}


async def test_the_same_key_is_the_same_job(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    answers = await asyncio.gather(
        *(worker.http.post("/scrape", json=payload(filters()), headers=KEY) for _ in range(8))
    )
    ids = {answer.json()["job_id"] for answer in answers}
    assert len(ids) == 1
    assert re.fullmatch("scrape_[0-9a-f]{32}", ids.pop())


async def test_another_key_is_another_job(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    first = await worker.start(filters(), key="one")
    await worker.finished(first)
    assert await worker.start(filters(), key="two") != first


async def test_a_key_with_another_request_is_refused(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    await worker.finished(await worker.start(filters(), key=KEY["Idempotency-Key"]))
    answer = await worker.http.post("/scrape", json=payload(filters("2025-01-11")), headers=KEY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "idempotency_key_reused")


async def test_the_key_is_known_after_a_restart_without_any_session(
    sandbox: Sandbox, start_worker: StartWorker
) -> None:
    async with start_worker() as worker:
        await worker.ready_session(sandbox.proxies[0])
        job_id = await worker.start(filters(), key=KEY["Idempotency-Key"])
        done = await worker.finished(job_id)
        results = (await worker.results(job_id)).content
    async with start_worker() as worker:
        assert (await worker.session()).status == "terminated"
        assert await worker.start(filters(), key=KEY["Idempotency-Key"]) == job_id
        assert await worker.job(job_id) == done
        assert (await worker.results(job_id)).content == results
