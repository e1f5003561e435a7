"""Servers that can no longer write: a demoted primary, a standby behind the address."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from psycopg.conninfo import make_conninfo

from regente import DatabaseUnavailable, Regente, Retry, Task
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.engine.helpers import running, status_is, until
from tests.support.replication import Pair, replicated

READ_ONLY = "default_transaction_read_only"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with replicated(synchronous=False) as found:
        yield found


@pytest.fixture
def writable_again(pair: Pair) -> Iterator[None]:
    yield
    pair.primary.set(READ_ONLY, "off")


@pytest.mark.usefixtures("writable_again")
async def test_runner_and_client_go_on_when_the_server_can_write_again(
    pair: Pair, registry: Registry, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """I8, F4: a read-only server counts as away; no try is charged, and nothing is restarted."""

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await connection.execute("SELECT 1")

    async with Regente(pair.url, settings=settings, pipelines=registry) as app, running(app) as job:
        await status_is(app, await app.enqueue("p"), "completed")
        with caplog.at_level(logging.WARNING, "regente"):
            pair.primary.set(READ_ONLY, "on")
            await until(lambda: "the server is read-only" in caplog.text)
        assert not job.done()
        pair.primary.set(READ_ONLY, "off")
        for key in (None, "key"):
            task_id = await app.enqueue("p", key=key)
            await status_is(app, task_id, "completed")
        assert (await app.get(task_id)).tries == 0
        assert not job.done()


async def test_a_transaction_that_its_own_code_made_read_only_is_its_own_fault(
    pair: Pair, registry: Registry, settings: Settings
) -> None:
    """I7: it is charged, and does not wait for another server for ever."""

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> None:
        async with task.transaction("STORE") as connection:
            await connection.execute("SET TRANSACTION READ ONLY")
            await connection.execute("CREATE TABLE public.never (id bigint)")

    async with Regente(pair.url, settings=settings, pipelines=registry) as app, running(app):
        task_id = await app.enqueue("p")
        await status_is(app, task_id, "failed")
        assert (await app.get(task_id)).error_code == "ReadOnlySqlTransaction"


async def test_a_standby_is_never_worked_on(pair: Pair, registry: Registry) -> None:
    """F4: of several hosts the writable one is found, even if the address names another;
    a standby alone is refused at the start by an error that says what to do."""
    hosts = f"{pair.standby.socket},{pair.primary.socket}"
    for wanted in ("any", "standby", "read-write", "primary"):
        url = make_conninfo(pair.url, host=hosts, target_session_attrs=wanted)
        async with Regente(url, pipelines=registry) as app:
            assert (await app.database.fetch("now"))[0][0]
    with pytest.raises(DatabaseUnavailable, match=r"read-only.*host=a,b"):
        async with Regente(pair.standby.url, pipelines=registry):
            pass
