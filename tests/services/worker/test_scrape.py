"""O21: real scrapes through real authenticated proxies find exactly the known ads."""

from __future__ import annotations

import pytest

from regente.services.sandbox import FaultKind, Sandbox
from tests.services.filters import filters
from tests.services.worker.conftest import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("media", ["all", "video", "image"])
@pytest.mark.parametrize("languages", [("pt",), ("pt", "en", "es", "fr", "de")])
async def test_a_scrape_finds_exactly_what_there_is(
    sandbox: Sandbox, worker: Client, media: str, languages: tuple[str, ...]
) -> None:
    wanted = filters("2025-01-10", "2025-01-16", media, languages)
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(wanted)
    done = await worker.finished(job_id)
    total = sandbox.total(wanted)
    assert (done["status"], done["ads_count"], done["progress_pct"], done["problem"]) == (
        "completed",
        total,
        100.0,
        None,
    )
    assert (done["duplicates"], done["expected_count"]) == (0, total)
    results = (await worker.results(job_id)).json()
    assert results["ads"] == [ad.as_dict() for ad in sandbox.catalogue.ads(wanted)]
    assert (results["ads_count"], results["job_id"]) == (total, job_id)


async def test_a_filter_without_ads_is_empty(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(filters("2025-01-13"))
    done = await worker.finished(job_id)
    assert (done["status"], done["ads_count"], done["problem"]) == ("empty", 0, None)
    assert (await worker.results(job_id)).json()["ads"] == []
    assert (await worker.session()).status == "ready"


async def test_one_session_serves_job_after_job(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    for day in ("2025-01-10", "2025-01-11", "2025-01-12"):
        done = await worker.finished(await worker.start(filters(day)))
        assert done["ads_count"] == sandbox.total(filters(day))


async def test_ads_that_come_twice_are_kept_once(sandbox: Sandbox, worker: Client) -> None:
    wanted = filters("2025-01-10", "2025-01-12")
    sandbox.break_with(FaultKind.REPEATS, from_page=2)
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(wanted, batch_size=10)
    done = await worker.finished(job_id)
    total = sandbox.total(wanted)
    assert (done["ads_count"], done["duplicates"]) == (total, 3 * ((total - 1) // 10))
    results = (await worker.results(job_id)).json()
    assert len({ad["id"] for ad in results["ads"]}) == len(results["ads"]) == total
    assert results["duplicates"] == done["duplicates"]


async def test_a_scrape_below_the_declared_total_reports_it(
    sandbox: Sandbox, worker: Client
) -> None:
    wanted = filters("2025-01-10", "2025-01-12")
    sandbox.break_with(FaultKind.MISSING, count=2)
    await worker.ready_session(sandbox.proxies[0])
    done = await worker.finished(await worker.start(wanted, batch_size=10))
    total = sandbox.total(wanted)
    assert (done["status"], done["ads_count"], done["expected_count"]) == (
        "completed",
        total - 2,
        total,
    )
    assert (
        done["problem"]["message"] == f"the target declares {total} ads, its pages had {total - 2}"
    )


async def test_max_ads_ends_the_job_early(sandbox: Sandbox, worker: Client) -> None:
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(filters("2025-01-10", "2025-01-12"), max_ads=25, batch_size=10)
    done = await worker.finished(job_id)
    assert (done["status"], done["ads_count"], done["problem"]) == ("completed", 25, None)
    assert len((await worker.results(job_id)).json()["ads"]) == 25


async def test_progress_is_reported_while_the_job_runs(sandbox: Sandbox, worker: Client) -> None:
    wanted = filters("2025-01-10", "2025-01-12")
    sandbox.break_with(FaultKind.HANG, from_page=3)
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(wanted, batch_size=10)
    running = await worker.until_job(job_id, "running")
    while running["ads_count"] < 20:
        running = await worker.job(job_id)
    assert running["progress_pct"] == pytest.approx(100 * 20 / sandbox.total(wanted), abs=0.1)
    assert (await worker.session()).status == "scraping"
    assert (await worker.results(job_id)).status_code == 404


async def test_a_completed_job_has_its_ads_as_data_unless_the_status_is_enough(
    sandbox: Sandbox, worker: Client
) -> None:
    """O21: 9.1; `Prefer: return=minimal` and `?data=false` leave them out."""
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(filters())
    done = await worker.finished(job_id)
    assert done["data"] == [ad.as_dict() for ad in sandbox.catalogue.ads(filters())]
    path = f"/scrape/{job_id}"
    minimal = (await worker.http.get(path, headers={"Prefer": "return=minimal"})).json()
    assert minimal == {name: value for name, value in done.items() if name != "data"}
    assert (await worker.http.get(path, params={"data": "false"})).json() == minimal


async def test_a_job_without_results_has_no_data(sandbox: Sandbox, worker: Client) -> None:
    """O21: 9.1: an empty list while it runs, and after a cancel."""
    sandbox.break_with(FaultKind.HANG, from_page=2)
    await worker.ready_session(sandbox.proxies[0])
    job_id = await worker.start(filters("2025-01-10", "2025-01-12"), batch_size=10)
    assert (await worker.until_job(job_id, "running"))["data"] == []
    await worker.http.post(f"/scrape/{job_id}/cancel")
    assert (await worker.until_job(job_id, "cancelled"))["data"] == []
