"""The fence: every write by a runner or attempt without the task is refused; who may claim."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from regente import Regente
from regente.engine.task_store import Claim, TaskStore
from tests.engine.helpers import WRITES, Sql, SqlRunner, Write, claims_of, many, task_row


@pytest.fixture
async def store(app: Regente, sql: Sql) -> AsyncIterator[TaskStore]:
    """The task store of a live runner."""
    opened = TaskStore(app.database, SqlRunner.register(sql, ["p"]).id)
    opened.start()
    yield opened
    await opened.stop()


@pytest.fixture
async def held(store: TaskStore, sql: Sql) -> Claim:
    sql.execute("INSERT INTO regente.tasks (pipeline) VALUES ('p')")
    return (await claims_of(store, "p", 1))[0]


@pytest.fixture(params=WRITES)
def write(request: pytest.FixtureRequest) -> Write:
    return WRITES[request.param]


async def test_the_current_attempt_may_write(store: TaskStore, held: Claim, write: Write) -> None:
    """I3: the control of the others."""
    assert await write(store, held)


async def test_an_attempt_that_the_same_runner_lost_and_claimed_again_writes_nothing(
    store: TaskStore, sql: Sql, held: Claim, write: Write
) -> None:
    """I3."""
    assert await WRITES["settlement"](store, held)
    (again,) = await claims_of(store, "p", 1)
    assert again.attempt == held.attempt + 1
    await refused(sql, store, held, write)


async def test_a_runner_that_never_had_the_task_writes_nothing(
    app: Regente, sql: Sql, held: Claim, write: Write
) -> None:
    """I4: the right attempt, the wrong runner."""
    other = TaskStore(app.database, SqlRunner.register(sql, ["p"]).id)
    other.start()
    await refused(sql, other, held, write)
    await other.stop()


async def test_an_ended_task_accepts_no_writes(
    store: TaskStore, sql: Sql, held: Claim, write: Write
) -> None:
    """I5."""
    assert await WRITES["completion"](store, held)
    await refused(sql, store, held, write)


@pytest.mark.parametrize(
    "change", ["lease_until = regente.clock()", "status = 'stopped'", "status = 'draining'"]
)
async def test_a_runner_that_is_lost_or_stopping_claims_nothing(
    store: TaskStore, sql: Sql, change: str
) -> None:
    """I4: also before it knows."""
    sql.execute("INSERT INTO regente.tasks (pipeline) SELECT 'p' FROM generate_series(1, 2)")
    assert len(await claims_of(store, "p", 1)) == 1
    sql.execute(f"UPDATE regente.runners SET {change} WHERE id = %s".encode(), [store.runner_id])
    assert await claims_of(store, "p", 1) == []


async def refused(sql: Sql, store: TaskStore, claim: Claim, write: Write) -> None:
    before = everything_about(sql, claim.id)
    assert not await write(store, claim)
    assert everything_about(sql, claim.id) == before


def everything_about(sql: Sql, task_id: int) -> list[object]:
    tables = ("steps", "failures", "events")
    return [
        task_row(sql, task_id),
        *(many(sql, f"SELECT * FROM regente.{one} WHERE task_id = %s", task_id) for one in tables),
    ]
