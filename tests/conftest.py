"""One PostgreSQL for the whole run, one fresh database for each test, copied from a migrated
template."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from xdist.remote import Producer

from regente import Regente
from regente.engine.pipeline import Registry
from regente.postgres.embedded import EmbeddedPostgres
from regente.settings import Settings
from tests.support.postgres_servers import install_postgres, not_here, start_server
from tests.support.scheduling import Scheduling
from tests.support.scratch import keep_in_memory
from tests.support.template import install_schema

keep_in_memory()
_numbers = itertools.count(1)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The server that REGENTE_TEST_DATABASE_URL names; else one of our own, of the major version in
    REGENTE_TEST_POSTGRES, or the embedded one."""
    given = os.environ.get("REGENTE_TEST_DATABASE_URL")
    if given:
        yield given
        return
    major = os.environ.get("REGENTE_TEST_POSTGRES")
    with tempfile.TemporaryDirectory(prefix="regente-tests-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)  # the server of a root user runs as another one
        if major:
            programs = install_postgres(int(major)) or pytest.fail(not_here(int(major)))
            with start_server(programs, Path(folder) / "server", max_connections="200") as url:
                yield url
            return
        server = EmbeddedPostgres.acquire(Path(folder) / "data")
        yield server.url
        server.release()


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    name = f"regente_template_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    install_schema(make_conninfo(server_url, dbname=name))
    return name


@pytest.fixture
def fresh_database(server_url: str, template: str) -> Iterator[str]:
    """A database of the test's own, with the schema in it."""
    name = f"regente_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        yield make_conninfo(server_url, dbname=name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def database_url(fresh_database: str) -> str:
    """The test's database; a folder may share one among its tests instead."""
    return fresh_database


@pytest.fixture
def registry() -> Registry:
    """A register of pipelines of the test's own."""
    return Registry()


@pytest.fixture
def settings() -> Settings:
    """Sweeps often, so that tests wait for milliseconds instead of minutes; the lease stays at its
    defaults."""
    return Settings(
        sweep_seconds=0.2, batches_seconds=0.2, schedules_seconds=0.2, drain_seconds=5.0
    )


@pytest.fixture
async def app(database_url: str, registry: Registry, settings: Settings) -> AsyncIterator[Regente]:
    async with Regente(database_url, settings=settings, pipelines=registry) as opened:
        yield opened
