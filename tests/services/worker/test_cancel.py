"""O21: cancelling is confirmed, leaves nothing behind, and can be repeated."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from regente.services.sandbox import FaultKind, Sandbox
from tests.services.filters import filters, payload
from tests.services.worker.conftest import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")

WANTED = filters("2025-01-10", "2025-01-12")


async def test_a_running_job_is_cancelled_and_the_session_is_free(
    sandbox: Sandbox, worker: Client, tmp_path: Path
) -> None:
    await worker.ready_session(sandbox.proxies[0])
    sandbox.break_with(FaultKind.HANG, from_page=2)
    job_id = await worker.start(WANTED, batch_size=10)
    for _ in range(2):
        answer = await worker.http.post(f"/scrape/{job_id}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert (await worker.session()).status == "ready"
    assert (await worker.results(job_id)).status_code == 404
    assert list((tmp_path / "worker" / "storage").iterdir()) == []
    sandbox.faults.clear()
    assert (await worker.finished(await worker.start(WANTED)))["ads_count"] == sandbox.total(WANTED)


async def test_a_job_is_cancelled_before_its_first_step(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    sandbox.break_with(FaultKind.HANG, path="/ads")
    job_id = await worker.start(WANTED)
    ended = await asyncio.gather(*(worker.http.post(f"/scrape/{job_id}/cancel") for _ in range(5)))
    assert {answer.json()["status"] for answer in ended} == {"cancelled"}


async def test_a_finished_job_stays_what_it_is(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(WANTED)
    done = await worker.finished(job_id)
    answer = await worker.http.post(f"/scrape/{job_id}/cancel")
    assert (answer.status_code, answer.json() | {"data": done["data"]}) == (200, done)
    assert (await worker.results(job_id)).status_code == 200


async def test_cancelling_one_job_leaves_another_alone(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    first = await worker.start(WANTED)
    await worker.finished(first)
    sandbox.break_with(FaultKind.HANG, path="/ads")
    second = await worker.start(WANTED)
    await worker.http.post(f"/scrape/{first}/cancel")
    assert (await worker.job(second))["status"] in ("pending", "running")
    assert (await worker.http.post("/scrape", json=payload(WANTED))).status_code == 429
