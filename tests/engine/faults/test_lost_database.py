"""The database or only its answer is lost: no task is lost or done twice; callers get an error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from regente import DatabaseUnavailable, Regente, Retry
from regente.engine import database as database_module
from regente.engine import runner as runner_module
from regente.engine.database import FOREVER, Database, TaskConnection
from regente.engine.errors import StatementTimeout
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.conftest import OpenApp
from tests.engine.helpers import Sql, column, events_of, one, running, status_is, task_row, until
from tests.support.eventually import TIMEOUT_SECONDS


class LostAnswers:
    """Commits the statement, then breaks the connection before the answer: once for each name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._names: set[str] = set()
        self.lost: list[str] = []
        original = database_module.fetch_on

        async def fetch_on(
            connection: Any, name: str, params: Mapping[str, Any]
        ) -> list[tuple[Any, ...]]:
            answer = await original(connection, name, params)
            if name in self._names and answer:
                self._names.discard(name)
                self.lost.append(name)
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            return answer

        monkeypatch.setattr(database_module, "fetch_on", fetch_on)

    def lose(self, *names: str) -> None:
        self._names |= set(names)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> LostAnswers:
    monkeypatch.setattr(runner_module, "LOST_CLAIMS_SECONDS", 0.05)
    return LostAnswers(monkeypatch)


@pytest.mark.parametrize(
    "name", ["claim", "finish", "settle", "record_steps", "register_runner", "survey", "add_event"]
)
async def test_a_lost_answer_changes_nothing(
    app: Regente, registry: Registry, sql: Sql, answers: LostAnswers, name: str
) -> None:
    """F7, I1, I2: every task completes, each step is recorded once, no try is charged."""
    calls: list[int] = []

    def paid(task_id: int) -> int:
        calls.append(task_id)
        return 1

    @registry.pipeline("p", retry=Retry(max_attempts=2, first=0.01), stall_after=None)
    async def run(task: Task[dict[str, Any]]) -> int:
        if task.args["n"] == 0 and task.tries == 0:
            raise RuntimeError("once, so that something is settled")
        await task.event("seen")
        return await task.step("A", paid, task.id)

    ids = await app.enqueue_many("p", [{"n": n} for n in range(20)])
    answers.lose(name)
    await app.run(until_idle=True, concurrency=5)
    assert answers.lost == [name]
    assert (await app.counts("p"))["completed"] == 20
    assert (
        column(sql, "SELECT count(*) FROM regente.steps WHERE name = 'A' GROUP BY task_id")
        == [1] * 20
    )
    assert sorted(calls) == ids
    assert column(sql, "SELECT tries FROM regente.tasks ORDER BY id") == [1] + [0] * 19
    assert set(
        column(sql, "SELECT count(*) FROM regente.events WHERE event = 'seen' GROUP BY task_id")
    ) == {1}
    completed = column(
        sql, "SELECT count(*) FROM regente.events WHERE event = 'task_completed' GROUP BY task_id"
    )
    assert completed == [1] * 20


async def test_all_tasks_complete_while_backends_are_killed(
    app: Regente, open_app: OpenApp, registry: Registry, sql: Sql
) -> None:
    """F3, I1, I2, S8: 2,000 tasks, two runners, all connections killed six times; no unique key."""
    sql.execute("CREATE TABLE public.sink (task_id bigint)")

    @registry.pipeline("p", retry=Retry(max_attempts=1))
    async def run(task: Task) -> None:
        async def store(connection: TaskConnection) -> int:
            await connection.execute("INSERT INTO public.sink VALUES (%s)", [task.id])
            return task.id

        assert await task.transact("STORE", store) == task.id

    ids = await app.enqueue_many("p", [{}] * 2_000)
    runs = [
        asyncio.create_task(one_of.run(until_idle=True, concurrency=50))
        for one_of in (app, await open_app())
    ]
    done = "SELECT count(*) FROM regente.tasks WHERE status = 'completed'"
    for share in range(6):
        await until(lambda least=share * 300: one(sql, done)["count"] >= least, within_seconds=60)  # type: ignore[misc]
        sql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'regente%'"
        )
    await asyncio.gather(*runs)
    assert sorted(column(sql, "SELECT task_id FROM public.sink")) == ids
    assert (await app.counts("p"))["completed"] == 2_000
    assert set(column(sql, "SELECT tries FROM regente.tasks")) == {0}


async def test_calls_survive_connections_that_died_in_the_pool(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """F3: callers do not see a database restart between two calls."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        return None

    kill = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name LIKE 'regente%'"
    )
    task_id = await app.enqueue("p", {}, draft=True)
    for call in (
        lambda: app.get(task_id),
        app.counts,
        lambda: app.why(task_id),
        app.tasks,
        app.feed,
        lambda: app.open_batch("b"),
        lambda: app.enqueue("p", {}),
        lambda: app.enqueue("p", {}, key="k", batch="b"),
        lambda: app.enqueue_many("p", [{}] * 300),
        lambda: app.cancel(task_id),
    ):
        sql.execute(kill)
        await call()
    assert task_row(sql, task_id)["status"] == "canceled"
    assert one(sql, "SELECT count(*) FROM regente.tasks")["count"] == 303


async def test_an_enqueue_with_unknown_outcome_raises(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """I1: no silent second copy; with a key the call may be repeated."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        return None

    sql.execute(
        "CREATE FUNCTION public.die() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$"
    )
    sql.execute(
        "CREATE TRIGGER die BEFORE INSERT ON regente.tasks FOR EACH ROW EXECUTE FUNCTION "
        "public.die()"
    )
    try:
        for call in (lambda: app.enqueue("p", {}), lambda: app.enqueue_many("p", [{}] * 300)):
            with pytest.raises(DatabaseUnavailable, match="may or may not be there"):
                await call()
    finally:
        sql.execute("DROP FUNCTION public.die() CASCADE")
    assert one(sql, "SELECT count(*) FROM regente.tasks")["count"] == 0
    await app.enqueue("p", {}, key="again")


async def test_an_unreachable_database_is_named_without_its_password() -> None:
    """The error of a failed connection names the address."""
    app = Regente("postgresql://user:secret@127.0.0.1:1/nowhere")
    with pytest.raises(
        DatabaseUnavailable, match=r"cannot reach PostgreSQL at .*127\.0\.0\.1"
    ) as refused:
        await app.__aenter__()
    assert "secret" not in str(refused.value)


async def test_a_call_without_a_database_fails_after_its_time_limit(
    app: Regente, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One clear error of Regente after the time limit, never the driver's."""

    @registry.pipeline("p")
    async def run(task: Task) -> None:
        return None

    original = database_module.fetch_on

    async def away(*given: Any, **_: Any) -> Any:
        if "enter_timeline" in given:  # the pool asks it when it connects
            return await original(*given)
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr(database_module, "RETRY_SECONDS", 0.2)
    monkeypatch.setattr(database_module, "fetch_on", away)
    monkeypatch.setattr(Database, "_fetch_dicts_once", away)
    for call in (lambda: app.get(1), lambda: app.pause("p"), lambda: app.cancel(1), app.batches):
        with pytest.raises(DatabaseUnavailable, match="is away: connection refused"):
            await call()


async def test_a_runner_gives_its_lease_up_when_it_cannot_renew_it(
    database_url: str, registry: Registry, sql: Sql
) -> None:
    """I3, I4: it stops its tasks before another runner may start them."""
    from regente.settings import Settings

    started, stopped = asyncio.Event(), asyncio.Event()

    @registry.pipeline("p")
    async def run(task: Task) -> str:
        if task.attempt > 1:
            return f"attempt {task.attempt}"
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    settings = Settings(sweep_seconds=0.2, lock_ttl_ms=600, heartbeat_interval_ms=100)
    async with Regente(database_url, settings=settings, pipelines=registry) as app:
        task_id = await app.enqueue("p", {})
        async with running(app):
            await started.wait()
            with sql.transaction():
                sql.execute("LOCK TABLE regente.runners IN ACCESS EXCLUSIVE MODE")
                await asyncio.wait_for(stopped.wait(), TIMEOUT_SECONDS)
            await status_is(app, task_id, "completed")
    row = task_row(sql, task_id)
    assert (row["tries"], row["attempt"] > 1) == (0, True)
    assert events_of(sql, task_id)[-1] == "task_completed"


async def test_a_statement_timeout_of_the_server_is_a_clear_error(
    database_url: str, holder: Sql
) -> None:
    """F11, I8: not retried for ever, as a lost connection is; one canceled statement is."""
    holder.execute("LOCK TABLE regente.sweeps IN ACCESS EXCLUSIVE MODE")
    database = Database(make_conninfo(database_url, options="-c statement_timeout=500ms"))
    await database.open()
    turn = {"name": "reaper", "every_seconds": 60.0}
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with pytest.raises(StatementTimeout, match="statement_timeout"):
                await database.fetch("take_turn", turn, give_up_at=lambda: FOREVER)
            waiting = asyncio.create_task(database.fetch("take_turn", turn))
            await asyncio.sleep(0)
            holder.rollback()
            assert [taken for taken, _ in await waiting] == [True]
    finally:
        await database.close()
