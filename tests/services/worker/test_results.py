"""O21: results are complete or absent, and `/storage` serves nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regente.services.sandbox import Sandbox
from tests.services.filters import filters
from tests.services.worker.conftest import Client, StartWorker, client_without_key
from tests.services.worker.processes import worker_process

pytestmark = pytest.mark.asyncio(loop_scope="module")

WANTED = filters("2025-01-10", "2025-01-12")
MEGABYTE = 1_000_000


async def test_results_are_absent_until_complete(
    sandbox: Sandbox, start_worker: StartWorker
) -> None:
    total, missing = sandbox.total(WANTED), 0
    async with start_worker(page_delay_seconds=0.02) as worker:
        await worker.ready_session(sandbox.proxies[0])
        job_id = await worker.start(WANTED, batch_size=5)
        while (answer := await worker.results(job_id)).status_code == 404:
            missing += 1
        assert len(answer.json()["ads"]) == total
        assert missing > 3
        assert (await worker.finished(job_id))["ads_count"] == total


async def test_results_announce_their_length(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(WANTED)
    await worker.finished(job_id)
    got = await worker.results(job_id)
    asked = await worker.http.head(f"/storage/{job_id}/{job_id}_results.json")
    assert asked.headers["content-length"] == got.headers["content-length"] == str(len(got.content))
    assert got.headers["content-type"] == "application/json"


async def test_nothing_but_results_can_be_read(
    sandbox: Sandbox, worker: Client, tmp_path: Path
) -> None:
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(WANTED)
    await worker.finished(job_id)
    (tmp_path / "worker" / "storage" / job_id / "secret").write_text("canary")
    paths = [
        f"/storage/{job_id}/secret",
        f"/storage/{job_id}/.{job_id}_results.json.partial",
        f"/storage/{job_id}/",
        "/storage/",
        f"/storage/%2e%2e/jobs%2f{job_id}.json",
        f"/storage/..%2fjobs/{job_id}.json",
        "/storage/../worker.lock",
        "/storage/..%2f..%2fx/..%2f..%2fx_results.json",
        "/storage/%2e%2e/%2e%2e_results.json",
        "/storage/a%00/a%00_results.json",
        f"/storage/{job_id.upper()}/{job_id.upper()}_results.json",
    ]
    async with client_without_key(worker.url) as client:
        for path in paths:
            answer = await client.get(path)
            assert answer.status_code in (401, 404), path
            assert answer.json()["error"]["code"] in (
                "unauthorized",
                "not_found",
                "results_not_found",
            ), path
        assert (await client.delete(f"/storage/{job_id}/{job_id}_results.json")).status_code == 405


async def test_storage_may_ask_for_the_key(sandbox: Sandbox, start_worker: StartWorker) -> None:
    async with start_worker(storage_needs_key=True) as worker:
        await worker.ready_session(sandbox.proxies[0])
        job_id = await worker.start(WANTED)
        await worker.finished(job_id)
        assert (await worker.results(job_id)).status_code == 401
        assert (
            await worker.http.get(f"/storage/{job_id}/{job_id}_results.json")
        ).status_code == 200


async def test_fifty_thousand_ads_need_little_memory(tmp_path: Path) -> None:
    wanted = filters("2025-01-10", "2025-01-12", languages=("pt", "en", "es", "fr", "de"))
    async with Sandbox(proxies=1, seed=7, ads_per_cell=3500) as sandbox:
        assert sandbox.total(wanted) >= 50_000
        with worker_process(tmp_path / "worker", sandbox.library_url) as process:
            client = Client(process.url)
            await client.ready_session(sandbox.proxies[0])
            await client.finished(
                await client.start(filters(languages=("pt",)), max_ads=400, batch_size=200)
            )
            before = process.peak_bytes()
            job_id = await client.start(wanted, batch_size=200)
            done = await client.finished(job_id, within_seconds=50)
            assert (done["status"], done["ads_count"]) == ("completed", sandbox.total(wanted))
            for path in (f"/storage/{job_id}/{job_id}_results.json", f"/scrape/{job_id}?data=true"):
                async with client.http.stream("GET", path) as answer:
                    size = sum([len(piece) async for piece in answer.aiter_raw()])
                assert size > 10 * MEGABYTE
            grown = process.peak_bytes() - before
            await client.http.aclose()
        stored = json.loads(
            (tmp_path / "worker" / "storage" / job_id / f"{job_id}_results.json").read_bytes()
        )
        assert len({ad["id"] for ad in stored["ads"]}) == sandbox.total(wanted)
        print(f"{sandbox.total(wanted)} ads: peak memory grew by {grown / MEGABYTE:.1f} MB")
        assert grown < 25 * MEGABYTE
