"""The database goes away while missions run, and comes back: they continue (F3, F4)."""

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
from tests.pipelines.missions.faults.conftest import (
    SHORT_LEASE,
    Environment,
    environment_with,
    missions_on,
)
from tests.pipelines.missions.faults.peers import JobScript
from tests.pipelines.missions.faults.runner_processes import ForkServer
from tests.support.eventually import eventually_async

MISSIONS = 8


async def some_are_done(env: Environment, count: int) -> None:
    async def done() -> bool:
        return len(env.writer.created) >= count

    await eventually_async(done)


async def all_gave_up(env: Environment) -> bool:
    """Each runner has noticed that its lease is over."""
    return all("lease lost" in process.said() for process in env.started)


def check_once(env: Environment) -> None:
    """By the peers' records: one job each, and no overlap."""
    jobs = [job for worker in env.workers for job in worker.watched.values()]
    assert (len(jobs), len({job.day for job in jobs})) == (MISSIONS, MISSIONS)
    assert len(env.writer.created) == MISSIONS
    assert [worker.overlapping for worker in env.workers] == [[], []]


async def test_missions_go_on_when_every_connection_is_cut(
    app: Regente, forkserver: ForkServer, tmp_path: Path
) -> None:
    """F3, O14: all backends are ended repeatedly."""
    async with environment_with(app, forkserver, tmp_path, workers=2, proxies=2) as env:
        for worker in env.workers:
            worker.script_of = lambda _: JobScript(0.3)
        await app.missions.create(missions_on(MISSIONS), queue=True)
        env.runner(**SHORT_LEASE)
        for count in (1, 2, 3, 4):
            await some_are_done(env, count)
            with psycopg.connect(app.database_url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
        await env.all_ended()
        await env.at_rest()
        assert await env.statuses() == ["completed"] * MISSIONS
        check_once(env)


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
    forkserver: ForkServer,
    registry: Registry,
    settings: Settings,
    tmp_path: Path,
) -> None:
    """F4, O14: an outage longer than a lease; no mission is scraped or stored twice."""
    async with (
        Regente(
            own_server.url, settings=settings, pipelines=registry, components=["missions"]
        ) as app,
        environment_with(app, forkserver, tmp_path, workers=2, proxies=2) as env,
    ):
        for worker in env.workers:
            worker.script_of = lambda _: JobScript(0.3)
        await app.missions.create(missions_on(MISSIONS), queue=True)
        env.runner(**SHORT_LEASE)
        env.runner(**SHORT_LEASE)
        await some_are_done(env, 2)
        postmaster = own_server.postmaster_pid
        assert postmaster is not None
        os.kill(postmaster, signal.SIGKILL)
        await eventually_async(partial(all_gave_up, env))  # the outage is longer than the lease
        await asyncio.to_thread(own_server.ensure_running)
        await env.all_ended()
        await env.at_rest()
        assert await env.statuses() == ["completed"] * MISSIONS
        check_once(env)
