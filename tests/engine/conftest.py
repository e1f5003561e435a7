"""Fixtures of the engine's tests: one database for the folder, emptied after each test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import psycopg
import pytest
from psycopg import sql as composed
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from regente import Regente
from regente.engine import runner
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.engine.helpers import Clock, Sql

OpenApp = Callable[[], Awaitable[Regente]]

# A database of its own for every test would cost half a second each; emptying a small one costs
# milliseconds.
_EMPTY = """
DO $$
DECLARE found record;
BEGIN
  FOR found IN SELECT relname FROM pg_class
               WHERE relnamespace = 'regente'::regnamespace AND relkind = 'r'
                 AND relname NOT IN ('migrations', 'installation') LOOP
    EXECUTE format('DELETE FROM regente.%I', found.relname);
  END LOOP;
  FOR found IN SELECT relname FROM pg_class WHERE relnamespace = 'regente'::regnamespace
      AND relkind = 'S' LOOP
    PERFORM setval(format('regente.%I', found.relname), 1, false);
  END LOOP;
  FOR found IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
      AND relkind = 'r' LOOP
    EXECUTE format('DROP TABLE public.%I CASCADE', found.relname);
  END LOOP;
END $$
"""
_CLOCK = "SELECT pg_get_functiondef('regente.clock'::regproc)"


@pytest.fixture(scope="session")
def shared_database(server_url: str, template: str) -> Iterator[str]:
    name = f"regente_engine_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        parts = composed.Identifier(name), composed.Identifier(template)
        connection.execute(composed.SQL("CREATE DATABASE {} TEMPLATE {}").format(*parts))
        yield make_conninfo(server_url, dbname=name)
        connection.execute(composed.SQL("DROP DATABASE {} WITH (FORCE)").format(parts[0]))


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables the runner's polling: only notifications and timers wake it."""
    monkeypatch.setattr(runner, "POLL_SECONDS", 3600.0)


@pytest.fixture
def database_url(shared_database: str) -> Iterator[str]:
    """The migrated schema without rows: ids begin at 1, the clock is the original one."""
    with psycopg.connect(
        shared_database, autocommit=True, application_name="cleanup"
    ) as connection:
        clock = connection.execute(_CLOCK).fetchone()
        assert clock is not None
        yield shared_database
        connection.execute(clock[0])
        connection.execute(_EMPTY)


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    """A connection beside the engine's, in autocommit mode."""
    with psycopg.connect(
        database_url, autocommit=True, row_factory=dict_row, application_name="observer"
    ) as connection:
        yield connection


@pytest.fixture
def holder(database_url: str) -> Iterator[Sql]:
    """A transaction that stays open until the test commits it: the rows it touched stay locked."""
    with psycopg.connect(
        database_url, row_factory=dict_row, application_name="holder"
    ) as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def clock(sql: Sql) -> Clock:
    return Clock(sql)


@pytest.fixture
async def open_app(
    database_url: str, registry: Registry, settings: Settings
) -> AsyncIterator[OpenApp]:
    """Opens further apps on the test's database; each can be a runner."""
    async with contextlib.AsyncExitStack() as stack:

        async def opened() -> Regente:
            return await stack.enter_async_context(
                Regente(database_url, settings=settings, pipelines=registry)
            )

        yield opened
