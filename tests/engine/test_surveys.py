"""Tasks that no hint announces, in places where the usual surveys do not look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from regente import Regente
from regente.engine import runner, surveyor
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Clock, Sql, running, until

SILENT = (
    "INSERT INTO regente.tasks (pipeline, args, priority, run_at) "
    "VALUES ('p', '{\"n\": \"silent\"}', %s, regente.clock() - %s::interval)"
)


@pytest.fixture(autouse=True)
def ran(registry: Registry) -> list[Any]:
    found: list[Any] = []

    @registry.pipeline("p")
    async def run(task: Task[dict[str, Any]]) -> None:
        found.append(task.args.get("n"))

    return found


@pytest.fixture(params=["fast", "slow"])
def surveys(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Surveys of everything run between the claims, or, as with an old snapshot, beside them."""
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(surveyor, "EVERY_SECONDS", 0.2)
    if request.param == "slow":
        monkeypatch.setattr(surveyor, "SLOW_SECONDS", -1.0)


@pytest.fixture
async def busy(app: Regente, ran: list[Any]) -> AsyncIterator[None]:
    """A runner that has just worked on newer tasks, so that its floors are high."""
    async with running(app):
        await app.enqueue("p", {"n": 0})
        await until(lambda: ran == [0])
        yield


@pytest.mark.usefixtures("surveys", "busy")
@pytest.mark.parametrize("priority", [0, 7])
async def test_a_silent_task_of_an_hour_ago_is_found(
    sql: Sql, ran: list[Any], priority: int
) -> None:
    """I8: plain SQL, a restored row, a client that died before its hint."""
    sql.execute(SILENT, (priority, "1 hour"))
    await until(lambda: ran == [0, "silent"])


@pytest.mark.usefixtures("surveys", "busy")
async def test_a_task_of_a_long_transaction_is_found(
    app: Regente, sql: Sql, holder: Sql, ran: list[Any]
) -> None:
    """I8: its `run_at` is older than those of tasks that were committed and done before it."""
    holder.execute(SILENT, (0, "5 seconds"))
    for n in range(1, 4):
        await app.enqueue("p", {"n": n})
        await until(lambda: len(ran) == n + 1)  # noqa: B023 - called before the next n
    holder.commit()
    await until(lambda: ran == [0, 1, 2, 3, "silent"])


@pytest.mark.usefixtures("surveys", "busy")
async def test_tasks_are_found_after_the_clock_went_back(
    sql: Sql, clock: Clock, ran: list[Any]
) -> None:
    """I8: every new task lies before the floors."""
    clock.advance(minutes=-1)
    sql.execute(SILENT, (0, "0 seconds"))
    await until(lambda: ran == [0, "silent"])


@pytest.mark.usefixtures("surveys", "busy")
async def test_older_tasks_of_a_paused_pipeline_are_claimed_when_it_goes_on(
    app: Regente, sql: Sql, ran: list[Any]
) -> None:
    """Surveys during the pause say nothing about it."""
    await app.pause("p")
    sql.execute(SILENT, (0, "1 minute"))
    await app.enqueue("p", {"n": 1}, priority=-1)
    await until(lambda: app._runner is not None and app._runner._surveyor.age_seconds < 0.1)
    await app.resume("p")
    await until(lambda: {*ran} == {0, 1, "silent"})


async def test_what_only_a_survey_finds_waits_no_longer_than_the_pause_between_surveys(
    app: Regente, sql: Sql, ran: list[Any], no_polls: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: the hint came before LISTEN, right after a slow survey of everything."""
    monkeypatch.setattr(surveyor, "PAUSE_FACTOR", 1e6)
    monkeypatch.setattr(surveyor, "MAX_EVERY_SECONDS", 0.5)
    async with running(app):
        await app.enqueue("p", {"n": 0})
        await until(lambda: ran == [0])
        sql.execute(SILENT, (7, "1 hour"))
        sql.execute("SELECT pg_notify('regente_queued', '')")
        await until(lambda: ran == [0, "silent"])
