"""A runner that is frozen inside a transaction, or lost its power: its locks go with its lease."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from regente import Regente, Task
from regente.engine.database import TASK_OPTIONS, Database, TaskConnections, number_array
from regente.engine.pipeline import Registry
from regente.engine.queries import query
from regente.settings import Settings
from tests.engine.faults import frozen_pipelines as _registered  # noqa: F401 - the client's
from tests.engine.faults.crashes.test_zombies_at_every_crash_point import is_frozen
from tests.engine.helpers import Sql, SqlRunner, column, many, one, running, status_is, task_row
from tests.support.eventually import eventually
from tests.support.runner_process import RunnerProcess

MODULE = "tests.engine.faults.frozen_pipelines"
NAME = "regente runner of the test"


async def test_a_frozen_transaction_costs_its_successor_no_try(database_url: str, sql: Sql) -> None:
    """F5, I2, I7: the reaper ends it before it queues the task; awake, the zombie does no harm."""
    sql.execute("CREATE TABLE public.stock AS SELECT 10 AS left_over")
    settings = Settings(sweep_seconds=0.2)
    async with Regente(database_url, settings=settings) as app:
        task_id = await app.enqueue("frozen.sells")
        with RunnerProcess(database_url, MODULE, {"JOB_LOCK_TTL_MS": "1000"}) as zombie:
            await asyncio.to_thread(eventually, lambda: is_frozen(zombie.pid))
            async with running(app, ["frozen.sells"]):
                await status_is(app, task_id, "completed", "failed")
            zombie.send(signal.SIGCONT)
            back = "SELECT FROM regente.runners WHERE pid = %s AND status = 'running'"
            await asyncio.to_thread(eventually, lambda: many(sql, back, zombie.pid))
            zombie.send(signal.SIGTERM)
            assert await asyncio.to_thread(zombie.wait) == 0, zombie.said()
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"], row["result"]) == (
        "completed",
        0,
        f"sold at attempt {row['attempt']}",
    )
    assert one(sql, "SELECT left_over FROM public.stock")["left_over"] == 9


@pytest.fixture
def lost(sql: Sql) -> SqlRunner:
    """A runner whose sessions are called NAME, about to be declared lost."""
    runner = SqlRunner.register(sql, ["p"])
    sql.execute("UPDATE regente.runners SET connections = %s WHERE id = %s", (NAME, runner.id))
    sql.execute("UPDATE regente.runners SET status = 'lost' WHERE id = %s", (runner.id,))
    return runner


@contextlib.contextmanager
def session(url: str, name: str, *, begins: bool = True) -> Iterator[Sql]:
    """A session with this name, by default in a transaction."""
    with psycopg.connect(url, application_name=name, autocommit=not begins) as connection:
        connection.execute("SELECT 1")
        yield connection  # type: ignore[misc]


def end_sessions(sql: Sql, runner: SqlRunner) -> dict[int, bool]:
    rows = sql.execute(query("end_sessions"), {"ids": number_array([runner.id])}).fetchall()
    return {row["pid"]: row["ended"] for row in rows}


def lives(connection: Sql) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.parametrize("name", [NAME, f"{NAME} - 10.0.0.7:5432"])
def test_a_lost_runners_transaction_is_ended(
    database_url: str, sql: Sql, lost: SqlRunner, name: str
) -> None:
    """F5, F13: also by the name that a pooler makes of it."""
    with session(database_url, name) as connection:
        pid = connection.info.backend_pid
        assert end_sessions(sql, lost) == {pid: True}
        assert not lives(connection)


def test_sessions_of_others_are_left_alone(
    database_url: str, server_url: str, sql: Sql, lost: SqlRunner
) -> None:
    """F5: other names, other databases, and sessions that hold nothing."""
    elsewhere = make_conninfo(server_url, dbname="postgres")
    with (
        session(database_url, NAME + "s") as another_name,
        session(elsewhere, NAME) as another_database,
        session(database_url, NAME, begins=False) as idle,
    ):
        assert end_sessions(sql, lost) == {}
        assert lives(another_name)
        assert lives(another_database)
        assert lives(idle)


def test_a_runner_that_registered_again_keeps_its_sessions(
    database_url: str, sql: Sql, lost: SqlRunner
) -> None:
    """F5, I8: a zombie that woke up works under a new id, on connections of the same name."""
    again = SqlRunner.register(sql, ["p"])
    sql.execute("UPDATE regente.runners SET connections = %s WHERE id = %s", (NAME, again.id))
    with session(database_url, NAME) as connection:
        assert end_sessions(sql, lost) == {}
        assert lives(connection)


def test_a_session_that_may_not_be_ended_is_reported(
    database_url: str, sql: Sql, lost: SqlRunner
) -> None:
    """F5, I8: the runner has another user; the reaper goes on and says so."""
    with session(database_url, NAME) as connection:
        sql.execute("CREATE ROLE reaper_of_test")
        sql.execute("GRANT USAGE ON SCHEMA regente TO reaper_of_test")
        sql.execute("GRANT SELECT ON regente.runners TO reaper_of_test")
        sql.execute("SET ROLE reaper_of_test")
        try:
            assert end_sessions(sql, lost) == {connection.info.backend_pid: False}
        finally:
            sql.execute("RESET ROLE")
            sql.execute("DROP OWNED BY reaper_of_test")
            sql.execute("DROP ROLE reaper_of_test")
        assert lives(connection)


async def test_connections_of_transactions_have_limits_of_the_server(database_url: str) -> None:
    """F5, F6: for a frozen runner where no other may end its session, and for a lost machine."""
    transactions = TaskConnections(Database(database_url), 1, idle_seconds=300)
    await transactions.open()
    try:
        async with transactions.connection() as connection:
            found = await connection.execute(
                "SELECT name, setting FROM pg_settings WHERE name IN "
                "('idle_in_transaction_session_timeout', 'tcp_keepalives_idle')"
            )
            settings = dict(await found.fetchall())
        assert settings["idle_in_transaction_session_timeout"] == "300000"
        assert "tcp_keepalives_idle=10" in TASK_OPTIONS
    finally:
        await transactions.close()


async def test_the_connections_of_a_runner_have_its_name(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """F5: those of claims, of the lease, of its own statements."""

    @registry.pipeline("p")
    async def run(task: Task) -> None: ...

    async with running(app):
        names = "SELECT connections FROM regente.runners WHERE status = 'running'"
        await asyncio.to_thread(eventually, lambda: column(sql, names))
        (name,) = column(sql, names)
        ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        await asyncio.to_thread(eventually, lambda: one(sql, ours, name)["count"] >= 3)
