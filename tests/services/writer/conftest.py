"""A writer in the test's event loop, a source, and a database that each test gets empty."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql as composed
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from regente.asgi.server import serving
from regente.services.writer import WriterConfig, create_app
from tests.services.writer.client import KEY, WriterClient
from tests.services.writer.source_server import SourceServer

Sql = psycopg.Connection[dict[str, Any]]
OpenWriter = Callable[..., Awaitable[WriterClient]]

_EMPTY = (
    "DROP SCHEMA IF EXISTS regente_writer CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: minutes of work; asked for with -m long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "long" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def writer_database(server_url: str) -> Iterator[str]:
    name = composed.Identifier(f"regente_writer_{os.getpid()}")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(composed.SQL("CREATE DATABASE {}").format(name))
        yield make_conninfo(server_url, dbname=name.as_string().strip('"'))
        connection.execute(composed.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def database_url(writer_database: str) -> Iterator[str]:
    yield writer_database
    with psycopg.connect(writer_database, autocommit=True) as connection:
        connection.execute(_EMPTY)


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
async def source() -> AsyncIterator[SourceServer]:
    async with SourceServer().running() as server:
        yield server


@pytest.fixture
async def open_writer(database_url: str) -> AsyncIterator[OpenWriter]:
    """Opens writers on the test's database, with short leases and retries."""
    async with contextlib.AsyncExitStack() as stack:

        async def opened(**config: Any) -> WriterClient:
            given = {
                "allow_private": True,
                "create_ads": True,
                "backoff_seconds": 0.02,
                "poll_seconds": 0.05,
            } | config
            app = create_app(WriterConfig(database_url=database_url, api_key=KEY, **given))
            client = WriterClient(await stack.enter_async_context(serving(app)))
            await stack.enter_async_context(client.http)
            return client

        yield opened


@pytest.fixture
async def writer(open_writer: OpenWriter) -> WriterClient:
    return await open_writer()
