"""The database goes away in the midst of missions, and comes back: they go on (F3, F4)."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from regente import Regente
from regente.engine.pipeline import Registry
from regente.postgres.embedded import EmbeddedPostgres
from regente.settings import Settings
from tests.pipelines.missions.faults.conftest import SHORT_LEASE, Theatre, missions_on, staged
from tests.pipelines.missions.faults.orchestrators import Nursery
from tests.pipelines.missions.faults.peers import Fate
from tests.support.eventually import eventually_async

MISSIONS = 8


async def some_are_done(theatre: Theatre, count: int) -> None:
    async def done() -> bool:
        return len(theatre.writer.created) >= count

    await eventually_async(done)


async def all_gave_up(theatre: Theatre) -> bool:
    """Each orchestrator has noticed by itself that it may not go on."""
    return all("lease lost" in process.said() for process in theatre.started)


def check_once(theatre: Theatre) -> None:
    """Counted by the peers: one job each, and nothing at once that must not be."""
    jobs = [job for worker in theatre.workers for job in worker.watched.values()]
    assert (len(jobs), len({job.day for job in jobs})) == (MISSIONS, MISSIONS)
    assert len(theatre.writer.created) == MISSIONS
    assert [worker.overlapping for worker in theatre.workers] == [[], []]


async def test_missions_go_on_when_every_connection_is_cut(
    app: Regente, forkserver: Nursery, tmp_path: Path
) -> None:
    """F3, O14: all backends are ended, again and again."""
    async with staged(app, forkserver, tmp_path, workers=2, proxies=2) as theatre:
        for worker in theatre.workers:
            worker.fate_of = lambda _: Fate(0.3)
        await app.missions.create(missions_on(MISSIONS), queue=True)
        theatre.orchestrator(**SHORT_LEASE)
        for count in (1, 2, 3, 4):
            await some_are_done(theatre, count)
            with psycopg.connect(app.database_url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
        await theatre.all_ended()
        await theatre.at_rest()
        assert await theatre.statuses() == ["completed"] * MISSIONS
        check_once(theatre)


@pytest.fixture
async def own_server() -> AsyncIterator[EmbeddedPostgres]:
    with tempfile.TemporaryDirectory(
        prefix="regente-outage-", ignore_cleanup_errors=True
    ) as folder:
        os.chmod(folder, 0o755)  # the server of a root user runs as another one
        server = await asyncio.to_thread(EmbeddedPostgres.acquire, Path(folder) / "data")
        yield server
        await asyncio.to_thread(server.release)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # connections of the server that was killed
async def test_missions_go_on_after_the_postmaster_was_killed(
    own_server: EmbeddedPostgres,
    forkserver: Nursery,
    registry: Registry,
    settings: Settings,
    tmp_path: Path,
) -> None:
    """F4, O14: for longer than a lease there is no database; nothing is scraped or stored twice."""
    async with (
        Regente(
            own_server.url, settings=settings, pipelines=registry, components=["missions"]
        ) as app,
        staged(app, forkserver, tmp_path, workers=2, proxies=2) as theatre,
    ):
        for worker in theatre.workers:
            worker.fate_of = lambda _: Fate(0.3)
        await app.missions.create(missions_on(MISSIONS), queue=True)
        theatre.orchestrator(**SHORT_LEASE)
        theatre.orchestrator(**SHORT_LEASE)
        await some_are_done(theatre, 2)
        postmaster = own_server.postmaster_pid
        assert postmaster is not None
        os.kill(postmaster, signal.SIGKILL)
        await eventually_async(partial(all_gave_up, theatre))  # the outage is longer than the lease
        await asyncio.to_thread(own_server.ensure_running)
        await theatre.all_ended()
        await theatre.at_rest()
        assert await theatre.statuses() == ["completed"] * MISSIONS
        check_once(theatre)
