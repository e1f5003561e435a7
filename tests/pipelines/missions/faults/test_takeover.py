"""Another runner takes over from a dead one and asks before it sends anything again (5.6)."""

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
    Environment,
    missions_on,
)
from tests.pipelines.missions.faults.peers import COMPLETED, FOREVER, JobScript, WatchedJob
from tests.pipelines.missions.faults.runner_processes import RunnerProcess
from tests.support.eventually import eventually_async
from tests.support.peers import Peer, stored

SLACK_SECONDS = 2.0  # two busy cores


async def scraping(env: Environment) -> WatchedJob:
    """The running scrape job, once the mission has polled it."""

    async def asked() -> bool:
        return env.worker.count("GET", "/scrape/.+") > 1

    await eventually_async(asked)
    return env.worker.running[0]


async def storing(env: Environment) -> None:
    async def asked() -> bool:
        return env.writer.count("GET", "/status/.+") > 1

    await eventually_async(asked)


async def begin(
    env: Environment,
    *,
    scrape: JobScript | None = None,
    storage: JobScript | None = None,
    **config: Any,
) -> RunnerProcess:
    """One mission at one process; its first jobs have these scripts."""
    scrapes, storages = [scrape or JobScript()], [storage or JobScript(0.05, stored(3))]
    env.worker.script_of = lambda _: scrapes.pop() if scrapes else JobScript()
    env.writer.script_of = lambda _: storages.pop() if storages else JobScript(0.05, stored(3))
    await env.app.missions.create(missions_on(1), queue=True)
    return env.runner(**config)


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
    case: str, env: Environment
) -> None:
    """O14 (5.6): completed goes to storage, running is polled, failed is retried; no duplicate."""
    final_answer, status, scrapes = SCRAPE_ENDS[case]
    crashing = await begin(env, scrape=JobScript(FOREVER))
    job = await scraping(env)
    crashing.kill()
    forget(env.worker)
    if final_answer is not None:
        job.finish(final_answer)
    env.expire_leases()
    env.runner()
    if final_answer is None:
        await scraping(env)
        job.finish()
    await env.all_ended()
    await env.at_rest()
    assert await env.statuses() == [status]
    assert first_call(env.worker, "(GET|POST) /scrape") == ("GET", f"/scrape/{job.id}")
    assert len(env.worker.watched) == scrapes
    assert env.worker.overlapping == []


async def test_a_scrape_that_is_gone_goes_back_to_the_queue(env: Environment) -> None:
    """O14 (5.6): a reset worker does not know the job; the mission is scraped again, uncharged."""
    crashing = await begin(env, scrape=JobScript(FOREVER))
    job = await scraping(env)
    crashing.kill()
    forget(env.worker)
    env.worker.watched.clear()
    env.expire_leases()
    env.runner()
    await env.all_ended()
    await env.at_rest()
    (mission,) = await env.app.missions.find()
    assert (mission.status, mission.retry_count) == ("completed", 0)
    assert first_call(env.worker, "(GET|POST) /scrape") == ("GET", f"/scrape/{job.id}")
    assert len(env.worker.watched) == 1


STORAGE_ENDS: dict[str, tuple[dict[str, Any] | None, int]] = {
    "completed meanwhile": (stored(3), 1),
    "partly stored": (stored(2, failed=1), 1),
    "failed meanwhile": (stored(0, status="failed", error="told to"), 2),
    "still processing": (None, 1),
}


@pytest.mark.parametrize("case", sorted(STORAGE_ENDS))
async def test_a_storage_is_asked_for_before_anything_is_sent_again(
    case: str, env: Environment
) -> None:
    """O14 (5.6): the writer's job is polled by its id; the scrape is not repeated."""
    final_answer, storages = STORAGE_ENDS[case]
    crashing = await begin(env, storage=JobScript(FOREVER, stored(3)))
    await storing(env)
    crashing.kill()
    forget(env.writer)
    (job,) = env.writer.watched.values()
    if final_answer is not None:
        job.ready_at, job.final_answer = 0.0, final_answer
    env.expire_leases()
    env.runner()
    if final_answer is None:
        await storing(env)
        job.ready_at = 0.0
    await env.all_ended()
    await env.at_rest()
    assert await env.statuses() == ["completed"]
    assert first_call(env.writer, "(GET /status|POST /process)") == (
        "GET",
        f"/status/{job.id}",
    )
    assert len(env.writer.created) == storages
    assert len(env.worker.watched) == 1


async def test_a_storage_that_is_gone_is_sent_again_under_its_name(
    env: Environment,
) -> None:
    """O14 (5.6): a reset writer does not know the job."""
    crashing = await begin(env, storage=JobScript(FOREVER, stored(3)))
    await storing(env)
    crashing.kill()
    forget(env.writer)
    (name,) = env.writer.created
    env.writer.jobs.clear()
    env.expire_leases()
    env.runner()
    await env.all_ended()
    await env.at_rest()
    assert await env.statuses() == ["completed"]
    assert env.writer.calls[:2] == [("GET", f"/status/{name}"), ("POST", "/process")]
    assert env.writer.created == [name, name]
    assert len(env.worker.watched) == 1


async def test_another_runner_takes_over_within_lease_and_sweep(
    env: Environment,
) -> None:
    """F1, O14: measured from the death to the first poll of the job; the other runs all along."""
    crashing = await begin(env, scrape=JobScript(FOREVER), **SHORT_LEASE)
    job = await scraping(env)
    env.runner()
    await eventually_async(lambda: _runners(env, 2))
    crashing.kill()
    died_at = time.monotonic()
    forget(env.worker)

    async def asked() -> bool:
        return ("GET", f"/scrape/{job.id}") in env.worker.calls

    await eventually_async(asked)
    took_seconds = time.monotonic() - died_at
    job.finish()
    await env.all_ended()
    await env.at_rest()
    assert took_seconds < LEASE_SECONDS + SWEEP_SECONDS + SLACK_SECONDS, (
        f"it took {took_seconds:.2f} s"
    )


async def test_workers_are_synchronised_and_orphaned_proxies_freed(
    env: Environment,
) -> None:
    """O14 (5.6): a session that ended with its driver is noticed; an unused proxy is freed."""
    await env.app.missions.set("session_limit", 100)
    crashing = await begin(env, storage=JobScript(FOREVER, stored(3)))
    await storing(env)
    crashing.kill()
    (job,) = env.writer.watched.values()
    env.worker.spans[-1].closed = time.monotonic()  # the worker was restarted
    with psycopg.connect(env.app.database_url, autocommit=True) as connection:
        (worker_id,) = connection.execute("SELECT id FROM regente.workers").fetchone() or ("",)
        connection.execute("UPDATE regente.workers SET status = 'idle', session_id = NULL")
        held = connection.execute(
            "SELECT count(*) FROM regente.proxies WHERE in_use_by_worker_id = %s", (worker_id,)
        ).fetchone()
    assert held == (1,)
    forget(env.worker)
    env.expire_leases()
    env.runner()
    job.ready_at = 0.0
    await env.all_ended()
    await env.at_rest()


async def _runners(env: Environment, count: int) -> bool:
    with psycopg.connect(env.app.database_url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT count(*) FROM regente.runners WHERE status = 'running'"
        ).fetchone()
    return found == (count,)
