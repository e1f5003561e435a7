"""Other clients hold every connection that the server allows (F11)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from regente import DatabaseUnavailable, Regente
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from regente.settings import Settings
from tests.engine.helpers import until
from tests.support.audit import audit
from tests.support.eventually import eventually_async
from tests.support.postgres_servers import require_postgres, start_server
from tests.support.running import runner_in
from tests.support.server_users import open_folder
from tests.support.sinks import ARRIVE, create_sink, sink_arrivals
from tests.support.template import install_schema

MOST = 30  # connections that the server allows, three of them for superusers
END_OURS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'regente%'
"""
OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'regente%'"


@pytest.fixture
def small_server() -> Iterator[str]:
    """Its address, for a user who is not a superuser."""
    with (
        open_folder() as folder,
        start_server(
            require_postgres(16), Path(folder) / "server", max_connections=str(MOST)
        ) as url,
    ):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE ROLE plain LOGIN")
            connection.execute("CREATE DATABASE work OWNER plain")
        yield url.replace("regente@/postgres", "plain@/work")


@pytest.fixture
def superuser(small_server: str) -> Iterator[psycopg.Connection[tuple[int]]]:
    with psycopg.connect(small_server.replace("plain@", "regente@"), autocommit=True) as opened:
        yield opened


@pytest.fixture
async def app(small_server: str, registry: Registry, settings: Settings) -> AsyncIterator[Regente]:
    await asyncio.to_thread(install_schema, small_server)
    async with Regente(small_server, settings=settings, pipelines=registry) as opened:
        yield opened


async def test_runners_and_clients_wait_for_a_connection(
    app: Regente,
    small_server: str,
    superuser: psycopg.Connection[tuple[int]],
    registry: Registry,
    settings: Settings,
) -> None:
    """F11, I1, I2, I6, I7: a newcomer is told what is the matter; nothing is charged."""
    gate = asyncio.Event()

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        await gate.wait()
        await task.step("READ", lambda: 1)
        async with task.transaction("STORE") as connection:
            await connection.execute(ARRIVE, (task.id, "STORE", task.attempt))

    create_sink(superuser)
    superuser.execute("GRANT ALL ON public.sink TO plain")
    ids = await app.enqueue_many("p", [{}] * 50, batch="b")
    async with runner_in(app):
        await until(lambda: app._runner is not None and app._runner.running_count == 50)
        with contextlib.ExitStack() as others:
            take_every_connection(small_server, superuser, others)
            gate.set()
            newcomer = Regente(small_server, settings=settings, pipelines=registry)
            with pytest.raises(DatabaseUnavailable, match="remaining connection slots"):
                await newcomer.__aenter__()
            assert sink_arrivals(superuser) == {}
        await eventually_async(lambda: all_completed(app, len(ids)))
    assert sink_arrivals(superuser) == {(task_id, "STORE"): 1 for task_id in ids}
    charged = superuser.execute("SELECT count(*) FROM regente.tasks WHERE tries > 0 OR crashes > 0")
    assert charged.fetchone() == (0,)
    assert audit(superuser) == []


def take_every_connection(
    url: str, superuser: psycopg.Connection[tuple[int]], others: contextlib.ExitStack
) -> None:
    """Ends ours until others have all of them."""
    while True:
        superuser.execute(END_OURS)
        with contextlib.suppress(psycopg.OperationalError):
            while True:
                others.enter_context(psycopg.connect(url))
        if superuser.execute(OURS).fetchone() == (0,):
            return


async def all_completed(app: Regente, count: int) -> bool:
    with contextlib.suppress(DatabaseUnavailable):
        return (await app.counts("p"))["completed"] == count
    return False
