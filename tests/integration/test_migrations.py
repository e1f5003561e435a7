"""Migrations: up and down, two at once, interrupted, and beside running code."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from regente import InvalidInput, Regente, SchemaOutdated, Task
from regente.app import prepare_schema
from regente.components import every_component
from regente.engine.migrations import ENGINE, Component, Migrator, read_migrations, statements
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.support.eventually import eventually, eventually_async

CATALOGUE = """
SELECT 'column', table_name, column_name, data_type, column_default
  FROM information_schema.columns WHERE table_schema = 'regente'
UNION ALL SELECT 'index', tablename, indexname, indexdef, NULL FROM pg_indexes
    WHERE schemaname = 'regente'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), NULL
  FROM pg_constraint WHERE connamespace = 'regente'::regnamespace
UNION ALL SELECT 'routine', routine_name, '', routine_definition, NULL
  FROM information_schema.routines WHERE routine_schema = 'regente'
UNION ALL SELECT 'type', t.typname, '', t.typtype::text, NULL FROM pg_type t
  WHERE t.typnamespace = 'regente'::regnamespace AND t.typtype = 'e'
ORDER BY 1, 2, 3, 4"""


MIGRATE = """
import asyncio, pathlib, sys
from psycopg import AsyncConnection
from regente.engine.migrations import Component, Migrator

async def main(url, name, folder):
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await Migrator(connection, [Component(name, pathlib.Path(folder))]).up()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def empty_url(server_url: str) -> Iterator[str]:
    """A database without our schema."""
    name = sql.Identifier("regente_empty")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        yield make_conninfo(server_url, dbname="regente_empty")
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
async def connection(empty_url: str) -> AsyncIterator[AsyncConnection[Any]]:
    async with await AsyncConnection.connect(empty_url, autocommit=True) as opened:
        yield opened


@pytest.fixture
def engine(tmp_path: Path) -> Component:
    """The engine's migrations and two more: a column and, outside a transaction, an index."""
    for path in ENGINE.folder.glob("*.sql"):
        (tmp_path / path.name).write_text(path.read_text("utf-8"), "utf-8")
    engine = Component(ENGINE.name, tmp_path)
    newest = newest_of(engine)
    add(
        engine,
        newest + 1,
        "ALTER TABLE regente.tasks ADD COLUMN colour text;",
        "ALTER TABLE regente.tasks DROP COLUMN colour;",
    )
    add(
        engine,
        newest + 2,
        "-- outside a transaction\nDROP INDEX CONCURRENTLY IF EXISTS regente.tasks_by_colour;\n"
        "CREATE INDEX CONCURRENTLY tasks_by_colour ON regente.tasks (colour) WHERE colour "
        "IS NOT NULL;",
        "DROP INDEX regente.tasks_by_colour;",
    )
    return engine


def add(component: Component, version: int, up: str, down: str) -> None:
    (component.folder / f"{version:04}_more.up.sql").write_text(up, "utf-8")
    (component.folder / f"{version:04}_more.down.sql").write_text(down, "utf-8")


def newest_of(component: Component) -> int:
    return read_migrations(component)[-1].version


async def catalogue(connection: AsyncConnection[Any]) -> list[tuple[Any, ...]]:
    return await (await connection.execute(CATALOGUE)).fetchall()


async def test_down_removes_everything_and_up_restores_the_same_schema(
    connection: AsyncConnection[Any],
) -> None:
    """Q10: migrations go up and down."""
    migrator = Migrator(connection, every_component())
    assert await migrator.installed() == {}
    applied = await migrator.up()
    installed = await catalogue(connection)
    assert await migrator.installed() == migrator.newest
    assert await migrator.down() == applied[::-1]
    assert await migrator.installed() == {}
    left = {row[1] for row in await catalogue(connection)}
    assert left <= {"migrations", "regente.migrations"}
    await migrator.up()
    assert await catalogue(connection) == installed


async def test_two_migrators_at_once_apply_each_migration_once(empty_url: str) -> None:
    async def migrate() -> int:
        async with await AsyncConnection.connect(empty_url, autocommit=True) as own:
            return len(await Migrator(own, every_component()).up())

    applied = await asyncio.gather(*(migrate() for _ in range(5)))
    assert sum(applied) == sum(len(read_migrations(one)) for one in every_component())


async def test_a_failing_statement_leaves_nothing_of_its_migration(
    connection: AsyncConnection[Any], engine: Component
) -> None:
    """F17: wholly there or not at all."""
    newest = newest_of(engine)
    add(
        engine,
        newest + 1,
        "ALTER TABLE regente.tasks ADD COLUMN half text;\nSELECT 1 / 0;",
        "SELECT 1;",
    )
    migrator = Migrator(connection, [engine])
    with pytest.raises(psycopg.errors.DivisionByZero):
        await migrator.up()
    assert await migrator.installed() == {"engine": newest}
    assert "half" not in {row[2] for row in await catalogue(connection)}


async def test_a_migration_outside_a_transaction_is_resumed_after_it_was_cut_off(
    connection: AsyncConnection[Any], engine: Component
) -> None:
    """F17: the invalid index of an interrupted CREATE INDEX CONCURRENTLY is replaced."""
    newest = newest_of(engine)
    migrator = Migrator(connection, [engine])
    await migrator.up(newest - 1)
    await connection.execute("CREATE INDEX tasks_by_colour ON regente.tasks (colour)")
    await connection.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = "
        "'regente.tasks_by_colour'::regclass"
    )
    await migrator.up()
    row = await (
        await connection.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = 'regente.tasks_by_colour'::regclass"
        )
    ).fetchone()
    assert row == (True,)
    assert await migrator.installed() == {"engine": newest}


async def test_old_code_goes_on_while_new_migrations_are_applied(
    database_url: str, engine: Component
) -> None:
    """F17: code that does not know the new columns drains its tasks; none is lost."""
    registry = Registry()

    @registry.pipeline("steady")
    async def steady(task: Task) -> None:
        await task.step("ONE", lambda: 1)

    async with Regente(
        database_url, settings=Settings(sweep_seconds=0.2), pipelines=registry
    ) as app:
        runner = asyncio.create_task(app.run(concurrency=20))
        await app.enqueue_many("steady", [{}] * 1000)
        async with await AsyncConnection.connect(database_url, autocommit=True) as own:
            done = await Migrator(own, [engine]).up()
        assert len(done) == 2
        await app.enqueue_many("steady", [{}] * 300)

        async def all_done() -> bool:
            return (await app.counts("steady"))["completed"] == 1300

        await eventually_async(all_done, within_seconds=60)
        app.stop_running()
        await runner


@pytest.mark.parametrize("passage", [1, 2, 3])
async def test_a_migration_killed_beside_old_code_harms_nobody(
    passage: int, database_url: str, engine: Component
) -> None:
    """F17, I1: while it holds the table's lock, and around an index that is built outside of a
    transaction; the next run completes it."""
    registry = Registry()

    @registry.pipeline("steady")
    async def steady(task: Task) -> None:
        await task.step("ONE", lambda: 1)

    async with Regente(
        database_url, settings=Settings(sweep_seconds=0.2), pipelines=registry
    ) as app:
        runner = asyncio.create_task(app.run(concurrency=20))
        ids = await app.enqueue_many("steady", [{}] * 500)
        killed = await asyncio.to_thread(migrate_in_a_process, database_url, engine, passage)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        ids += await app.enqueue_many("steady", [{}] * 100)
        done = await asyncio.to_thread(migrate_in_a_process, database_url, engine)
        assert done.returncode == 0, done.stderr
        ids += await app.enqueue_many("steady", [{}] * 100)

        async def all_done() -> bool:
            return (await app.counts("steady"))["completed"] == len(ids)

        await eventually_async(all_done, within_seconds=60)
        assert {(await app.get(task_id)).tries for task_id in ids[:5]} == {0}
        app.stop_running()
        await runner
    async with await AsyncConnection.connect(database_url, autocommit=True) as own:
        assert await Migrator(own, [engine]).installed() == {"engine": newest_of(engine)}
        assert "colour" in {row[2] for row in await catalogue(own)}


def migrate_in_a_process(
    url: str, component: Component, passage: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Killed after this many statements, if any."""
    environment = os.environ | {"REGENTE_CRASH_POINT": ""}
    if passage is not None:
        environment["REGENTE_CRASH_POINT"] = f"migrate.statement:{passage}"
    return subprocess.run(
        [sys.executable, "-c", MIGRATE, url, component.name, str(component.folder)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


async def test_recorded_results_survive_the_change_of_their_column(
    connection: AsyncConnection[Any],
) -> None:
    """Q10, F17: those of before, and those that older code records beside the new."""
    migrator = Migrator(connection, [ENGINE])
    record = "INSERT INTO regente.steps (task_id, name, attempt, output) VALUES (1, %s, 1, "
    recall = "SELECT name, output::text FROM regente.steps ORDER BY name"
    await migrator.up(2)
    await connection.execute(record + "%s::jsonb)", ("BEFORE", '{"b": [1.5, null]}'))
    await migrator.up()
    await connection.execute(record + "%s::jsonb)", ("BESIDE", '{"b": [1.5, null]}'))
    await connection.execute(record + "%s::json)", ("NEW", '{"z":1e22,"a":-0.0}'))
    assert await (await connection.execute(recall)).fetchall() == [
        ("BEFORE", '{"b": [1.5, null]}'),
        ("BESIDE", '{"b": [1.5, null]}'),
        ("NEW", '{"z":1e22,"a":-0.0}'),
    ]
    await migrator.down(2)
    assert len(await (await connection.execute(recall)).fetchall()) == 3


async def test_a_migration_waits_for_locks_in_short_turns(
    connection: AsyncConnection[Any], engine: Component, empty_url: str
) -> None:
    """A long transaction delays the migration; other statements do not queue up behind it."""
    migrator = Migrator(connection, [engine])
    await migrator.up(1)
    async with await AsyncConnection.connect(empty_url) as holder:
        await holder.execute("SELECT count(*) FROM regente.tasks")
        migrating = asyncio.create_task(migrator.up())
        await asyncio.to_thread(_wait_for_a_waiter, empty_url)
        async with await AsyncConnection.connect(empty_url, autocommit=True) as reader:
            await reader.execute("SET statement_timeout = '5s'")
            await reader.execute("INSERT INTO regente.tasks (pipeline) VALUES ('x')")
        assert not migrating.done()
        await holder.rollback()
        await migrating
    assert await migrator.installed() == migrator.newest


def _wait_for_a_waiter(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as watcher:
        eventually(
            lambda: (
                watcher.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
                != (0,)
            ),
            within_seconds=10,
        )


async def test_an_outdated_schema_is_refused_with_advice(
    empty_url: str,
) -> None:
    await prepare_schema(empty_url, upgrade=False)
    async with await AsyncConnection.connect(empty_url, autocommit=True) as own:
        await own.execute("DELETE FROM regente.migrations WHERE version > 1")
        with pytest.raises(SchemaOutdated, match="regente migrate up"):
            await Migrator(own).require()


async def test_an_unknown_revision_is_refused(connection: AsyncConnection[Any]) -> None:
    with pytest.raises(InvalidInput, match="no migration 99"):
        await Migrator(connection).up(99)


def test_scripts_are_split_at_the_ends_of_statements_only() -> None:
    script = (
        "SELECT 1; -- one\n-- a comment;\nCREATE FUNCTION f() AS $$\nBEGIN\n  x;\nEND "
        "$$;\nSELECT ';'\n  || 'a';"
    )
    assert len(statements(script)) == 3
