"""An orchestrator dies and another one takes over: soon, and by asking before anything is sent
again (5.6)."""

from __future__ import annotations

import re
import time
from typing import Any

import psycopg
import pytest

from tests.pipelines.missions.faults.conftest import (
    LEASE_SECONDS,
    SHORT_LEASE,
    SWEEP_SECONDS,
    Theatre,
    missions_on,
)
from tests.pipelines.missions.faults.orchestrators import Orchestrator
from tests.pipelines.missions.faults.peers import COMPLETED, FOREVER, Fate, WatchedJob
from tests.support.eventually import eventually_async
from tests.support.peers import Peer, stored

SLACK_SECONDS = 2.0  # two busy cores


async def scraping(theatre: Theatre) -> WatchedJob:
    """The job that runs, once it is known and looked at."""

    async def asked() -> bool:
        return theatre.worker.count("GET", "/scrape/.+") > 1

    await eventually_async(asked)
    return theatre.worker.running[0]


async def storing(theatre: Theatre) -> None:
    async def asked() -> bool:
        return theatre.writer.count("GET", "/status/.+") > 1

    await eventually_async(asked)


async def begin(
    theatre: Theatre, *, scrape: Fate | None = None, storage: Fate | None = None, **config: Any
) -> Orchestrator:
    """One mission, in the hands of one orchestrator; only its first jobs have these fates."""
    scrapes, storages = [scrape or Fate()], [storage or Fate(0.05, stored(3))]
    theatre.worker.fate_of = lambda _: scrapes.pop() if scrapes else Fate()
    theatre.writer.fate_of = lambda _: storages.pop() if storages else Fate(0.05, stored(3))
    await theatre.app.missions.create(missions_on(1), queue=True)
    return theatre.orchestrator(**config)


def forget(peer: Peer) -> None:
    peer.calls.clear()


def first_call(peer: Peer, pattern: str) -> tuple[str, str] | None:
    return next(
        ((method, path) for method, path in peer.calls if re.match(pattern, f"{method} {path}")),
        None,
    )


SCRAPE_ENDS: dict[str, tuple[dict[str, Any] | None, str, int]] = {
    "completed meanwhile": (COMPLETED, "completed", 1),
    "found nothing": ({"status": "empty", "ads_count": 0}, "completed", 1),
    "failed meanwhile": ({"status": "failed"}, "completed", 2),
    "still running": (None, "completed", 1),
}


@pytest.mark.parametrize("case", sorted(SCRAPE_ENDS))
async def test_a_scrape_is_asked_for_before_anything_is_sent_again(
    case: str, theatre: Theatre
) -> None:
    """O14 (5.6): completed goes on to storage, running is watched, failed is tried again; nothing
    runs twice."""
    last_word, status, scrapes = SCRAPE_ENDS[case]
    doomed = await begin(theatre, scrape=Fate(FOREVER))
    job = await scraping(theatre)
    doomed.kill()
    forget(theatre.worker)
    if last_word is not None:
        job.finish(last_word)
    theatre.expire_leases()
    theatre.orchestrator()
    if last_word is None:
        await scraping(theatre)
        job.finish()
    await theatre.all_ended()
    await theatre.at_rest()
    assert await theatre.statuses() == [status]
    assert first_call(theatre.worker, "(GET|POST) /scrape") == ("GET", f"/scrape/{job.id}")
    assert len(theatre.worker.watched) == scrapes
    assert theatre.worker.overlapping == []


async def test_a_scrape_that_is_gone_goes_back_to_the_queue(theatre: Theatre) -> None:
    """O14 (5.6): the worker was set up anew and knows nothing; the mission is scraped once more,
    uncharged."""
    doomed = await begin(theatre, scrape=Fate(FOREVER))
    job = await scraping(theatre)
    doomed.kill()
    forget(theatre.worker)
    theatre.worker.watched.clear()
    theatre.expire_leases()
    theatre.orchestrator()
    await theatre.all_ended()
    await theatre.at_rest()
    (mission,) = await theatre.app.missions.find()
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert first_call(theatre.worker, "(GET|POST) /scrape") == ("GET", f"/scrape/{job.id}")
    assert len(theatre.worker.watched) == 1


STORAGE_ENDS: dict[str, tuple[dict[str, Any] | None, int]] = {
    "completed meanwhile": (stored(3), 1),
    "partly stored": (stored(2, failed=1), 1),
    "failed meanwhile": (stored(0, status="failed", error="told to"), 2),
    "still processing": (None, 1),
}


@pytest.mark.parametrize("case", sorted(STORAGE_ENDS))
async def test_a_storage_is_asked_for_before_anything_is_sent_again(
    case: str, theatre: Theatre
) -> None:
    """O14 (5.6): the writer's job is asked for by its id; what was extracted is not extracted
    again."""
    last_word, storages = STORAGE_ENDS[case]
    doomed = await begin(theatre, storage=Fate(FOREVER, stored(3)))
    await storing(theatre)
    doomed.kill()
    forget(theatre.writer)
    (job,) = theatre.writer.watched.values()
    if last_word is not None:
        job.ready_at, job.last_word = 0.0, last_word
    theatre.expire_leases()
    theatre.orchestrator()
    if last_word is None:
        await storing(theatre)
        job.ready_at = 0.0
    await theatre.all_ended()
    await theatre.at_rest()
    assert await theatre.statuses() == ["completed"]
    assert first_call(theatre.writer, "(GET /status|POST /process)") == ("GET", f"/status/{job.id}")
    assert len(theatre.writer.created) == storages
    assert len(theatre.worker.watched) == 1


async def test_a_storage_that_is_gone_is_sent_again_under_its_name(theatre: Theatre) -> None:
    """O14 (5.6): the writer was set up anew."""
    doomed = await begin(theatre, storage=Fate(FOREVER, stored(3)))
    await storing(theatre)
    doomed.kill()
    forget(theatre.writer)
    (name,) = theatre.writer.created
    theatre.writer.jobs.clear()
    theatre.expire_leases()
    theatre.orchestrator()
    await theatre.all_ended()
    await theatre.at_rest()
    assert await theatre.statuses() == ["completed"]
    assert theatre.writer.calls[:2] == [("GET", f"/status/{name}"), ("POST", "/process")]
    assert theatre.writer.created == [name, name]
    assert len(theatre.worker.watched) == 1


async def test_another_orchestrator_takes_over_within_lease_and_sweep(theatre: Theatre) -> None:
    """F1, O14: measured from the death to the first question about the job, with the other one
    alive all along."""
    doomed = await begin(theatre, scrape=Fate(FOREVER), **SHORT_LEASE)
    job = await scraping(theatre)
    theatre.orchestrator()
    await eventually_async(lambda: _runners(theatre, 2))
    doomed.kill()
    died_at = time.monotonic()
    forget(theatre.worker)

    async def asked() -> bool:
        return ("GET", f"/scrape/{job.id}") in theatre.worker.calls

    await eventually_async(asked)
    took_seconds = time.monotonic() - died_at
    job.finish()
    await theatre.all_ended()
    await theatre.at_rest()
    assert took_seconds < LEASE_SECONDS + SWEEP_SECONDS + SLACK_SECONDS, (
        f"it took {took_seconds:.2f} s"
    )


async def test_workers_are_synchronised_and_orphaned_proxies_freed(theatre: Theatre) -> None:
    """O14 (5.6): a session that died with its driver is noticed, and a proxy that nobody uses is
    free again."""
    await theatre.app.missions.set("session_limit", 100)
    doomed = await begin(theatre, storage=Fate(FOREVER, stored(3)))
    await storing(theatre)
    doomed.kill()
    (job,) = theatre.writer.watched.values()
    theatre.worker.spans[-1].closed = time.monotonic()  # the worker was restarted
    with psycopg.connect(theatre.app.database_url, autocommit=True) as connection:
        (worker_id,) = connection.execute("SELECT id FROM regente.workers").fetchone() or ("",)
        connection.execute("UPDATE regente.workers SET status = 'idle', session_id = NULL")
        held = connection.execute(
            "SELECT count(*) FROM regente.proxies WHERE in_use_by_worker_id = %s", (worker_id,)
        ).fetchone()
    assert held == (1,)
    forget(theatre.worker)
    theatre.expire_leases()
    theatre.orchestrator()
    job.ready_at = 0.0
    await theatre.all_ended()
    await theatre.at_rest()


async def _runners(theatre: Theatre, count: int) -> bool:
    with psycopg.connect(theatre.app.database_url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT count(*) FROM regente.runners WHERE status = 'running'"
        ).fetchone()
    return found == (count,)
