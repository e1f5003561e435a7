"""Which tables a database gets: those that its processes use; and upgrades of older databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from regente import Regente, SchemaOutdated
from regente.app import prepare_schema
from regente.components import components_of, every_component
from regente.engine.migrations import Migrator, read_migrations
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.integration.test_migrations import CATALOGUE

OLD_STREAM = ("engine", "missions", "api", "quotes", "rounds", "embeddings", "documents")
"""The names of versions 1 to 7 when all components had one stream of migrations."""


@pytest.fixture
def empty(server_url: str) -> Iterator[psycopg.Connection]:
    """A connection to a database without our schema."""
    name = sql.Identifier("regente_components")
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(name))
        url = make_conninfo(server_url, dbname="regente_components")
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def url(empty: psycopg.Connection, server_url: str) -> str:
    return make_conninfo(server_url, dbname="regente_components")


def tables(connection: psycopg.Connection) -> set[str]:
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'regente'"
    return {name for (name,) in connection.execute(query)}


def contents(connection: psycopg.Connection) -> dict[str, list[dict[str, Any]]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return {
            name: cursor.execute(
                sql.SQL("SELECT * FROM regente.{}").format(sql.Identifier(name))
            ).fetchall()
            for name in tables(connection) - {"migrations"}
        }


def catalogue(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(CATALOGUE).fetchall()


async def test_the_engine_alone_makes_its_own_tables_only(
    url: str, empty: psycopg.Connection
) -> None:
    """Q10: an application with pipelines of its own gets no tables of missions or quotes."""
    async with Regente(url):
        pass
    assert tables(empty) == {
        "batches",
        "events",
        "failures",
        "installation",
        "intents",
        "lane_calls",
        "lane_queues",
        "lanes",
        "migrations",
        "pipelines",
        "runners",
        "schedule_runs",
        "schedules",
        "settings",
        "signals",
        "snapshots",
        "steps",
        "sweeps",
        "tasks",
        "timelines",
        "waits",
    }


async def test_a_runner_creates_the_tables_of_its_pipelines(
    url: str, empty: psycopg.Connection
) -> None:
    async with Regente(url, pipelines=Registry()) as app:
        app.conduct(["matches"])
        await app.run(until_idle=True)
    assert "rounds" in tables(empty)
    assert not {"quotes", "workers", "documents"} & tables(empty)


async def test_a_disabled_pipeline_gets_no_tables(url: str, empty: psycopg.Connection) -> None:
    settings = Settings(builtins="quotes,embeddings")
    async with Regente(url, settings=settings, pipelines=Registry()) as app:
        app.conduct()
        await app.run(until_idle=True)
    assert {"quotes", "embeddings"} <= tables(empty)
    assert not {"rounds", "workers", "documents"} & tables(empty)


async def test_only_the_components_of_a_process_must_be_up_to_date(
    url: str, empty: psycopg.Connection
) -> None:
    """Q10: an outdated pipeline does not stop processes that do not use it."""
    await prepare_schema(url, every_component(), upgrade=False)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as own:
        await Migrator(own, [one for one in every_component() if one.name == "missions"]).down(1)
    async with Regente(url, components=["quotes"]):
        pass
    with pytest.raises(
        SchemaOutdated, match=r"missions is at version 1.*needs \d+.*--component missions"
    ):
        async with Regente(url, components=["missions"]):
            pass


@pytest.mark.parametrize("version", range(1, len(OLD_STREAM) + 1))
async def test_a_database_with_a_single_stream_is_upgraded_without_loss(
    url: str, empty: psycopg.Connection, version: int
) -> None:
    """Q10, F17: its rows stay, and its schema equals that of a new database."""
    make_old(empty, version)
    empty.execute("INSERT INTO regente.tasks (pipeline, args) VALUES ('missions', '{\"a\": 1}')")
    before = contents(empty)
    applied_at = empty.execute("SELECT name, applied_at FROM regente.migrations").fetchall()
    with pytest.raises(SchemaOutdated, match=r"engine is at version 1.*--component engine"):
        async with Regente(url, pipelines=Registry()):
            pass
    assert ("component",) not in empty.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'regente.migrations'::regclass"
    ).fetchall(), "only a migration converts the register"
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as own:
        migrator = Migrator(own, every_component())
        assert await migrator.installed() == dict.fromkeys(
            [one.name for one in every_component() if one.name in OLD_STREAM[:version]], 1
        )
        await migrator.up()
        assert await migrator.installed() == migrator.newest
    async with Regente(url, pipelines=Registry()) as app:
        assert (await app.get(1)).args == {"a": 1}
    after = contents(empty)  # later migrations add columns
    assert {
        name: [
            {column: row[column] for column in earlier}
            for row, earlier in zip(after[name], rows, strict=True)
        ]
        for name, rows in before.items()
    } == before
    assert set(applied_at) <= set(
        empty.execute("SELECT name, applied_at FROM regente.migrations").fetchall()
    )
    upgraded = catalogue(empty)
    empty.execute("DROP SCHEMA regente CASCADE")
    await prepare_schema(url, every_component(), upgrade=False)
    assert catalogue(empty) == upgraded


async def test_an_old_database_is_migrated_down_completely(
    url: str, empty: psycopg.Connection
) -> None:
    make_old(empty, len(OLD_STREAM))
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as own:
        await Migrator(own, every_component()).down()
    assert tables(empty) == {"migrations"}


def make_old(connection: psycopg.Connection, version: int) -> None:
    """A database as older programs left it at this version, with all migrations in one stream."""
    connection.execute("CREATE SCHEMA regente")
    connection.execute(
        "CREATE TABLE regente.migrations (version integer PRIMARY KEY, name text NOT NULL, "
        "applied_at timestamptz NOT NULL DEFAULT now())"
    )
    known = {one.name: one for one in every_component()}
    for number, name in enumerate(OLD_STREAM[:version], 1):
        scripts = [read_migrations(known[name])[0].up]
        if name == "api":
            scripts.append(read_migrations(known["missions"])[1].up)
        for script in scripts:
            connection.execute(script.encode())
        connection.execute(
            "INSERT INTO regente.migrations (version, name) VALUES (%s, %s)", (number, name)
        )


def test_the_api_needs_the_engine_only() -> None:
    """Q10: what it shows of missions and of other built-ins comes with them."""
    assert [one.name for one in components_of(["api"])] == ["engine", "api"]
