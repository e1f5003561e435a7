"""Recorded steps of tasks in flight, replayed against new code: what it understands, and that the
replay has no effect and calls nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from regente import Lane, Regente, Retry, Skip, Task, Transient
from regente.engine import dry_replay
from regente.engine.deploy_check import (
    check_replays,
    count_in_flight,
    installation_of,
    tasks_in_flight,
)
from regente.engine.models import ReplayCheck
from regente.engine.pipeline import Registry
from regente.settings import Settings
from tests.engine.helpers import Sql, SqlRunner, one, running
from tests.support.eventually import eventually_async

Code = Callable[[Task[Any]], Awaitable[Any]]
SOON = Retry(max_attempts=50, first=0.01, jitter=False)
STATE = """
SELECT (SELECT json_agg(t ORDER BY id) FROM regente.tasks t)::text AS tasks,
       (SELECT count(*) FROM regente.steps) AS steps,
       (SELECT count(*) FROM regente.events) AS events,
       (SELECT count(*) FROM regente.batches) AS batches,
       (SELECT count(*) FROM regente.waits) AS waits,
       (SELECT count(*) FROM regente.lane_calls) AS lane_calls,
       (SELECT count(*) FROM regente.intents) AS intents"""

called: list[str] = []


async def fetch(url: str) -> list[str]:
    called.append("fetch")
    return [f"{url}/{number}" for number in range(3)]


async def download(url: str) -> list[str]:
    called.append("download")
    return [url]


async def read(page: str) -> int:
    called.append("read")
    return len(page)


async def store(connection: Any, total: int) -> int:
    called.append("store")
    return total


async def work(task: Task[Any]) -> str:
    """The code that began the tasks."""
    urls = await task.step("FETCH", fetch, task.args["url"])
    sizes = await task.each("READ", urls, read)
    await task.progress(0.5)
    await task.transact("STORE", store, sum(sizes))
    async with task.transaction("MARK") as connection:
        await connection.execute("SELECT 1")
    await task.event("stored")
    return str(await task.wait_for("approval"))


class Deploys:
    """Old code that leaves tasks in flight, and new code that is checked against them."""

    def __init__(self, app: Regente, url: str, settings: Settings, sql: Sql) -> None:
        self._app = app
        self._url = url
        self._settings = settings
        self._sql = sql

    async def begin(self, code: Code, *, event: str = "task_waiting", **args: Any) -> int:
        """A task of this code that has given its slot back; its runner has stopped."""
        old = Registry()
        old.pipeline("p", retry=SOON)(code)

        @old.pipeline("child")
        async def child(task: Task[Any]) -> None:
            await task.wait_for("never")

        opened = Regente(self._url, settings=self._settings, pipelines=old)
        async with opened as app, running(app):
            task_id = await app.enqueue("p", {"url": "shop", **args})

            async def left() -> bool:
                return event in [found.event for found in await app.task_events(task_id)]

            await eventually_async(left)
        called.clear()
        return task_id

    async def check(self, code: Code, **options: Any) -> ReplayCheck:
        new = Registry()
        new.pipeline("p", **options)(code)
        before = one(self._sql, STATE)
        tasks = await tasks_in_flight(self._app.database, ["p"], 10)
        installation = await installation_of(self._app.database)
        [found] = await check_replays(new, tasks, installation)
        assert called == [], "a step was called"
        assert one(self._sql, STATE) == before, "something was written"
        return found


@pytest.fixture
def deploys(app: Regente, database_url: str, settings: Settings, sql: Sql) -> Deploys:
    return Deploys(app, database_url, settings, sql)


async def test_the_same_code_understands_its_own_steps(deploys: Deploys) -> None:
    """Q12: up to the signal that the task waits for."""
    task_id = await deploys.begin(work)
    found = await deploys.check(work)
    assert (found.verdict, found.stopped_at) == ("understood", "signal:approval")
    assert found.task_id == task_id


async def in_lanes(task: Task[Any]) -> str:
    async with task.in_lane(Lane("shop.example")):
        urls = await task.step("FETCH", fetch, task.args["url"])
    await task.step("READ", read, urls[0], lane=Lane("reports"))
    async with task.in_lane(Lane("shop.example")):
        return str(await task.wait_for("approval"))


async def test_a_replay_takes_no_place_in_a_lane(deploys: Deploys) -> None:
    """Q12: and does not stop where the code asks for one."""
    await deploys.begin(in_lanes)
    found = await deploys.check(in_lanes)
    assert (found.verdict, found.stopped_at) == ("understood", "signal:approval")


async def other_arguments(task: Task[Any]) -> None:
    await task.step("FETCH", fetch, task.args["url"] + "?all")


async def other_function(task: Task[Any]) -> None:
    await task.step("FETCH", download, task.args["url"])


async def other_items(task: Task[Any]) -> None:
    urls = await task.step("FETCH", fetch, task.args["url"])
    await task.each("READ", urls[::-1], read)


async def other_kind(task: Task[Any]) -> None:
    await task.each("FETCH", ["shop"], fetch)


async def caught(task: Task[Any]) -> str:
    with contextlib.suppress(BaseException):
        await other_arguments(task)
    return "done"


@pytest.mark.parametrize("code", [other_arguments, other_function, other_items, other_kind, caught])
async def test_another_call_of_a_recorded_step_is_a_mismatch(deploys: Deploys, code: Code) -> None:
    """Q12: as it would be in the next attempt."""
    await deploys.begin(work)
    found = await deploys.check(code)
    assert found.verdict == "mismatch"
    assert "was recorded for" in found.message


async def renamed(task: Task[Any]) -> None:
    await task.step("DOWNLOAD", fetch, task.args["url"])


async def inserted(task: Task[Any]) -> None:
    urls = await task.step("FETCH", fetch, task.args["url"])
    await task.step("FILTER", read, urls[0])
    await work(task)


async def ends_early(task: Task[Any]) -> str:
    await task.step("FETCH", fetch, task.args["url"])
    return "done"


@pytest.mark.parametrize(
    ("code", "stopped_at", "unasked"),
    [
        (renamed, "DOWNLOAD", ["FETCH", "MARK", "READ", "STORE"]),
        (inserted, "FILTER", ["MARK", "READ", "STORE"]),
        (ends_early, None, ["MARK", "READ", "STORE"]),
    ],
)
async def test_a_recorded_step_that_is_not_asked_for_is_told(
    deploys: Deploys, code: Code, stopped_at: str | None, unasked: list[str]
) -> None:
    """Q12: a renamed step would be done a second time, and no attempt would notice."""
    await deploys.begin(work)
    found = await deploys.check(code)
    assert (found.verdict, found.stopped_at, found.unasked) == ("unasked", stopped_at, unasked)


async def test_an_alias_makes_a_renamed_step_understood(deploys: Deploys) -> None:
    """Q12: the documented way to rename."""

    async def begun(task: Task[Any]) -> None:
        await task.step("FETCH", fetch, task.args["url"])
        await task.wait_for("approval")

    async def aliased(task: Task[Any]) -> None:
        await task.step("DOWNLOAD", download, task.args["url"], aliases=["FETCH", "fetch"])
        await task.wait_for("approval")

    await deploys.begin(begun)
    assert (await deploys.check(aliased)).verdict == "understood"


async def test_code_that_fails_before_the_next_step_is_told(deploys: Deploys) -> None:
    """Q12, F15."""

    async def fails(task: Task[Any]) -> None:
        raise KeyError(task.args["shop"])

    class Args(BaseModel):
        url: int

    async def typed(task: Task[Any]) -> None:
        assert task.args.url

    async def skips(task: Task[Any]) -> None:
        raise Skip("nothing to do")

    await deploys.begin(work)
    found = await deploys.check(fails)
    assert (found.verdict, found.message) == ("fails", "KeyError: 'shop'")
    found = await deploys.check(typed, args=Args)
    assert (found.verdict, found.message[:12]) == ("fails", "INVALID_ARGS")
    assert (await deploys.check(skips)).verdict == "unasked"


async def test_an_effect_outside_of_a_step_is_refused_and_told(
    deploys: Deploys, app: Regente, tmp_path: Path
) -> None:
    """Q12: also when the code catches the refusal. The target sees nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = server.getsockname()

        async def connects(task: Task[Any]) -> None:
            socket.create_connection(address)

        async def connects_in_a_thread(task: Task[Any]) -> None:
            with contextlib.suppress(BaseException):
                await asyncio.to_thread(socket.create_connection, address)
            await work(task)

        async def starts_a_process(task: Task[Any]) -> None:
            await asyncio.create_subprocess_exec(sys.executable, "-c", "")

        async def writes(task: Task[Any]) -> None:
            with contextlib.suppress(BaseException):
                (tmp_path / "report").write_text("written")

        async def enqueues(task: Task[Any]) -> None:
            await app.enqueue("p", {"url": "another"})

        await deploys.begin(work)
        for code in (connects, connects_in_a_thread, starts_a_process, writes, enqueues):
            found = await deploys.check(code)
            assert found.verdict == "outside", code
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not (tmp_path / "report").exists()
    (tmp_path / "report").write_text("after the replay effects are allowed again")


async def test_new_steps_of_every_kind_stop_the_replay(deploys: Deploys) -> None:
    """Q12: none is begun, no intent is stored, and code that catches the stop goes no further."""
    steps: dict[str, Code] = {
        "NEW": lambda task: task.step("NEW", fetch, "x"),
        "HOLD": lambda task: task.step("HOLD", fetch, "x", on_unknown="hold"),
        "EACH_HOLD": lambda task: task.each("EACH_HOLD", ["x"], read, on_unknown="hold"),
        "EACH": lambda task: task.each("EACH", ["x"], read, concurrency=2),
        "TRANSACT": lambda task: task.transact("TRANSACT", store, 1),
        "sleep": lambda task: task.sleep(5),
        "signal:new": lambda task: task.wait_for("new"),
        "SPAWN": lambda task: task.spawn("SPAWN", "child", [{}]),
    }

    async def begun(task: Task[Any]) -> None:
        await task.wait_for("approval")

    await deploys.begin(begun)
    for name, step in steps.items():

        async def code(task: Task[Any], step: Code = step) -> None:
            await task.heartbeat()
            assert not await task.done("NEW")
            with contextlib.suppress(Exception):
                await step(task)
            raise AssertionError("not reached")

        found = await deploys.check(code)
        assert (found.verdict, found.stopped_at) == ("understood", name)

    async def swallows(task: Task[Any]) -> None:
        with contextlib.suppress(BaseException):
            await task.step("NEW", fetch, "x")
        await task.step("NEXT", fetch, "x")

    async def block(task: Task[Any]) -> None:
        async with task.transaction() as connection:
            await connection.execute("DELETE FROM regente.tasks")

    async def named(task: Task[Any]) -> None:
        async with task.transaction("DELETE") as connection:
            await connection.execute("DELETE FROM regente.tasks")

    assert (await deploys.check(swallows)).stopped_at == "NEW"
    assert (await deploys.check(block)).stopped_at == "a transaction without a name"
    assert (await deploys.check(named)).stopped_at == "DELETE"


async def test_an_unfinished_loop_is_understood(deploys: Deploys) -> None:
    """Q12: with steps inside of its items."""

    async def looped(task: Task[Any]) -> None:
        async def item(number: int) -> int:
            got = await task.step("INNER", read, str(number))
            if number == 2 and task.args.get("begins"):
                raise Transient("not yet")
            return got

        await task.each("LOOP", [1, 2, 3], item)

    await deploys.begin(looped, event="task_retried", begins=True)
    found = await deploys.check(looped)
    assert (found.verdict, found.stopped_at) == ("understood", "LOOP")


async def test_spawned_tasks_are_compared(deploys: Deploys) -> None:
    """Q12: while the parent waits for them nothing is recorded but their batch."""

    async def parent(task: Task[Any]) -> None:
        await task.spawn("PARSE", "child", [{"n": 1}])

    async def other(task: Task[Any]) -> None:
        await task.spawn("PARSE", "child", [{"n": 2}])

    async def gone(task: Task[Any]) -> None:
        await task.step("NEW", fetch, "x")

    await deploys.begin(parent)
    found = await deploys.check(parent)
    assert (found.verdict, found.stopped_at) == ("understood", "PARSE")
    assert (await deploys.check(other)).verdict == "mismatch"
    assert (await deploys.check(gone)).unasked == ["PARSE"]


async def pay(euros: int) -> int:
    called.append("pay")
    raise TimeoutError("no answer")


async def test_calls_of_unknown_outcome_are_compared(deploys: Deploys) -> None:
    """Q12: while a person has to decide on a call nothing is recorded but its intent."""

    async def begun(task: Task[Any]) -> None:
        await task.step("PAY", pay, 7, on_unknown="hold")

    async def other(task: Task[Any]) -> None:
        await task.step("PAY", pay, 8, on_unknown="hold")

    async def renamed(task: Task[Any]) -> None:
        await task.step("BUY", pay, 7, on_unknown="hold")

    async def renamed_with_alias(task: Task[Any]) -> None:
        await task.step("BUY", pay, 7, on_unknown="hold", aliases=["PAY"])

    await deploys.begin(begun, event="task_held")
    found = await deploys.check(begun)
    assert (found.verdict, found.stopped_at) == ("understood", "PAY")
    assert (await deploys.check(other)).verdict == "mismatch"
    assert (await deploys.check(renamed)).unasked == ["PAY"]
    found = await deploys.check(renamed_with_alias)
    assert (found.verdict, found.stopped_at) == ("understood", "BUY")


async def test_steps_side_by_side_leave_nothing_behind(deploys: Deploys) -> None:
    """Q12: also tasks that the code starts."""
    started: list[asyncio.Task[Any]] = []

    async def begun(task: Task[Any]) -> None:
        await task.step("FETCH", fetch, task.args["url"])
        await task.wait_for("approval")

    async def grouped(task: Task[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            started.append(group.create_task(asyncio.sleep(3600)))
            group.create_task(task.step("FETCH", fetch, task.args["url"]))
            group.create_task(task.step("NEW", fetch, "x"))

    async def forgotten(task: Task[Any]) -> None:
        started.append(asyncio.create_task(asyncio.sleep(3600)))
        await begun(task)

    await deploys.begin(begun)
    for code in (grouped, forgotten):
        assert (await deploys.check(code)).verdict == "understood"
    assert [one.cancelled() for one in started] == [True, True]


async def test_code_that_waits_between_its_steps_is_told(
    deploys: Deploys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q12: the check itself ends."""
    monkeypatch.setattr(dry_replay, "SECONDS", 0.2)

    async def waits(task: Task[Any]) -> None:
        await asyncio.Event().wait()

    await deploys.begin(work)
    assert (await deploys.check(waits)).verdict == "slow"


async def test_only_tasks_in_flight_are_checked(
    deploys: Deploys, app: Regente, sql: Sql, registry: Registry
) -> None:
    """Q12: neither those that never began nor those that ended."""

    @registry.pipeline("p")
    async def run(task: Task[Any]) -> None:
        """Never runs."""

    waiting = await deploys.begin(work)
    await app.enqueue("p")
    claimed, ended = await app.enqueue_many("p", [{}, {}], priority=1)
    runner = SqlRunner.register(sql, ["p"])
    sql.execute("UPDATE regente.tasks SET priority = 0")
    sql.execute(
        "UPDATE regente.tasks SET run_at = '9000-01-01' WHERE id NOT IN (%s, %s)", (claimed, ended)
    )
    assert sorted(runner.claim(2)) == [claimed, ended]
    assert runner.finish(ended)
    found = await tasks_in_flight(app.database, ["p"], 10)
    assert [one.claim.id for one in found] == [waiting, claimed]
    assert await count_in_flight(app.database) == {"p": 2}
    assert await tasks_in_flight(app.database, ["other"], 10) == []
    assert len(await tasks_in_flight(app.database, ["p"], 1)) == 1
