"""The database was away: connections come back within a few seconds, however long it was."""

from __future__ import annotations

import asyncio

import pytest

from regente.engine import database as module
from regente.engine.database import Database, TaskConnections
from tests.engine.helpers import until
from tests.support.eventually import TIMEOUT_SECONDS
from tests.support.tcp_proxy import proxy_before

ATTEMPTS = 12  # with waits that double from 0.1 s on, the twelfth would come after 3 minutes
CONNECTIONS = 20


@pytest.fixture(autouse=True)
def quick_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.1, raising=False)


async def test_the_waits_between_attempts_to_reconnect_do_not_grow(database_url: str) -> None:
    """F4, I8: a caller that waits all the time is served when the database is back."""
    async with proxy_before(database_url) as proxy:
        database = Database(proxy.url)
        await database.open()
        try:
            await database.fetch("known_pipelines")
            proxy.take_away()
            waiting = asyncio.create_task(
                database.fetch("known_pipelines", give_up_at=lambda: module.FOREVER)
            )
            await until(lambda: proxy.refused >= ATTEMPTS)
            proxy.bring_back()
            assert await asyncio.wait_for(waiting, TIMEOUT_SECONDS) == []
        finally:
            await database.close()


async def test_connections_that_died_in_the_pool_are_replaced_at_once(database_url: str) -> None:
    """F3, F4: the caller's wait does not grow with their number."""
    async with proxy_before(database_url) as proxy:
        transactions = TaskConnections(Database(proxy.url), CONNECTIONS)
        await transactions.open()
        try:
            together = asyncio.Barrier(CONNECTIONS)
            users = (_use_beside(transactions, together) for _ in range(CONNECTIONS))
            await asyncio.gather(*users)
            proxy.take_away()
            proxy.bring_back()
            # A second for each that died would be 20.
            await asyncio.wait_for(_use_beside(transactions, asyncio.Barrier(1)), 10)
        finally:
            await transactions.close()


async def _use_beside(transactions: TaskConnections, others: asyncio.Barrier) -> None:
    """A connection for tasks, while others hold theirs."""
    async with transactions.connection() as connection:
        await others.wait()
        await connection.execute("SELECT 1")
