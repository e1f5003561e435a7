"""O21: a worker that was killed knows its jobs after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regente.services.sandbox import FaultKind, Sandbox
from tests.services.filters import filters
from tests.services.worker.conftest import Client, StartWorker
from tests.services.worker.processes import worker_process
from tests.support.eventually import eventually_async

pytestmark = pytest.mark.asyncio(loop_scope="module")

WANTED = filters("2025-01-10", "2025-01-12")


async def begin_and_get_half_way(sandbox: Sandbox, url: str) -> str:
    client = Client(url)
    await client.ready_session(sandbox.proxies[0])
    sandbox.break_with(FaultKind.HANG, from_page=3)
    job_id = await client.start(WANTED, key="mission-1", batch_size=10)

    async def half_way() -> bool:
        return bool(
            sandbox.faults.struck[FaultKind.HANG] and (await client.job(job_id))["ads_count"] == 20
        )

    await eventually_async(half_way)
    await client.http.aclose()
    sandbox.faults.clear()
    return job_id


async def test_a_job_whose_worker_was_killed_has_failed_and_the_next_one_works(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    folder = tmp_path / "worker"
    with worker_process(folder, sandbox.library_url) as process:
        job_id = await begin_and_get_half_way(sandbox, process.url)
        process.kill()
    assert len(list((folder / "storage").rglob(".*.partial"))) == 1
    with worker_process(folder, sandbox.library_url) as process:
        client = Client(process.url)
        assert (await client.session()).status == "terminated"
        job = await client.job(job_id)
        assert (job["status"], job["problem"]["cause"]) == ("failed", "worker")
        assert list((folder / "storage").rglob(".*.partial")) == []
        assert (await client.results(job_id)).status_code == 404
        assert await client.start(WANTED, key="mission-1", batch_size=10) == job_id
        await client.ready_session(sandbox.proxies[1])
        again = await client.finished(await client.start(WANTED, key="mission-1 again"))
        assert (again["status"], again["ads_count"]) == ("completed", sandbox.total(WANTED))
        await client.http.aclose()


async def test_a_stopped_worker_ends_its_job(
    sandbox: Sandbox, start_worker: StartWorker, tmp_path: Path
) -> None:
    folder = tmp_path / "worker"
    async with start_worker() as worker:
        job_id = await begin_and_get_half_way(sandbox, worker.url)
    job = json.loads((folder / "jobs" / f"{job_id}.json").read_text())
    assert (job["status"], job["problem"]["message"]) == (
        "failed",
        "the worker was stopped while this job was running",
    )
    assert list((folder / "storage").iterdir()) == []


async def test_a_job_whose_results_were_published_is_complete_although_it_was_not_saved(
    sandbox: Sandbox, start_worker: StartWorker, tmp_path: Path
) -> None:
    """The state after a kill between publishing the results and saving the job."""
    async with start_worker() as worker:
        await worker.ready_session(sandbox.proxies[0])
        job_id = await worker.start(WANTED)
        done = await worker.finished(job_id)
    record = tmp_path / "worker" / "jobs" / f"{job_id}.json"
    record.write_text(
        json.dumps(
            json.loads(record.read_text()) | {"status": "running", "ads_count": 7, "ended_at": None}
        )
    )
    async with start_worker() as worker:
        assert await worker.job(job_id) == done


async def test_a_file_that_is_no_job_does_not_keep_the_worker_down(
    start_worker: StartWorker, tmp_path: Path
) -> None:
    async with start_worker():
        pass
    (tmp_path / "worker" / "jobs" / "scrape_00000000.json").write_text("{")
    async with start_worker() as worker:
        assert (await worker.http.get("/scrape/scrape_00000000")).status_code == 404


async def test_two_workers_never_share_a_folder(start_worker: StartWorker) -> None:
    async with start_worker():
        with pytest.raises(OSError, match="another worker uses"):
            async with start_worker():
                pass
    async with start_worker() as worker:
        assert (await worker.session()).status == "terminated"


async def test_a_full_disk_fails_the_job_and_nothing_else(sandbox: Sandbox, tmp_path: Path) -> None:
    wide = filters("2025-01-01", "2025-03-31", languages=("pt", "en", "es"))
    with worker_process(
        tmp_path / "worker", sandbox.library_url, max_file_bytes=300_000
    ) as process:
        client = Client(process.url)
        await client.ready_session(sandbox.proxies[0])
        job_id = await client.start(wide)
        job = await client.finished(job_id)
        assert (job["status"], job["problem"]["cause"]) == ("failed", "storage")
        assert (await client.results(job_id)).status_code == 404
        assert (await client.finished(await client.start(WANTED)))["ads_count"] == sandbox.total(
            WANTED
        )
        await client.http.aclose()


async def test_old_jobs_and_their_results_are_forgotten(
    sandbox: Sandbox, start_worker: StartWorker, tmp_path: Path
) -> None:
    async with start_worker(keep_days=0.000001) as worker:
        await worker.ready_session(sandbox.proxies[0])
        old = await worker.start(WANTED, key="old")
        await worker.finished(old)

        async def forgotten() -> bool:
            await worker.finished(await worker.start(WANTED))
            return (await worker.http.get(f"/scrape/{old}")).status_code == 404

        await eventually_async(forgotten)
        assert (await worker.results(old)).status_code == 404
        assert not (tmp_path / "worker" / "storage" / old).exists()
