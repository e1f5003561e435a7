"""Calls with an unknown outcome: with `on_unknown="hold"` a person decides, nothing is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from regente import (
    Fatal,
    IllegalTransition,
    InvalidInput,
    NotFound,
    Regente,
    Retry,
    Transient,
    UnknownOutcome,
)
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import (
    Sql,
    column,
    events_of,
    many,
    one,
    running,
    status_is,
    task_row,
    until,
)

FAST = Retry(max_attempts=3, first=0.01, jitter=False)


class Receipt(BaseModel):
    number: int


class Provider:
    """Counts what it was asked for; its first call never ends."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.called = asyncio.Event()

    async def pay(self, what: str) -> Receipt:
        self.calls.append(what)
        if len(self.calls) == 1:
            self.called.set()
            await asyncio.Event().wait()
        return Receipt(number=len(self.calls))


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def paying(registry: Registry, provider: Provider) -> Registry:
    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> int:
        receipt = await task.step("PAY", provider.pay, "chair", on_unknown="hold")
        return int(receipt.number)

    return registry


async def lost(app: Regente, sql: Sql, provider: Provider) -> int:
    """A task whose runner is told to stop while the provider works on the call."""
    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(provider.called.is_set)
    assert task_row(sql, task_id)["status"] == "queued"
    return task_id


async def test_a_lost_call_is_not_repeated_but_put_before_a_person(
    app: Regente, paying: Registry, sql: Sql, provider: Provider, open_app: Any
) -> None:
    """I2: not by a second attempt, and not by a release; `why` and the list name it."""
    task_id = await lost(app, sql, provider)
    other = await open_app()
    async with running(other):
        await until(lambda: task_row(sql, task_id)["error_code"] == "UNKNOWN_OUTCOME")
        await other.release([task_id])
        await until(lambda: task_row(sql, task_id)["attempt"] == 3)
        await status_is(other, task_id, "queued")
    assert provider.calls == ["chair"]
    row = task_row(sql, task_id)
    assert (row["tries"], row["crashes"]) == (0, 0)
    (decision,) = await app.decisions()
    assert (decision.task_id, decision.pipeline, decision.step, decision.item) == (
        task_id,
        "p",
        "PAY",
        None,
    )
    assert decision.attempt == 1
    why = await app.why(task_id)
    assert why.code == "UNKNOWN_OUTCOME"
    assert f"PAY may have been called at {decision.called_at:%Y-%m-%d %H:%M:%S}" in why.summary
    failure = one(sql, "SELECT step, code, details FROM regente.failures ORDER BY id")
    assert (failure["step"], failure["code"]) == ("PAY", "UNKNOWN_OUTCOME")
    assert failure["details"]["called_in_attempt"] == 1
    assert "task_held" in events_of(sql, task_id)


async def test_a_retry_calls_once_more(
    app: Regente, paying: Registry, sql: Sql, provider: Provider, open_app: Any
) -> None:
    """I2: by the decision of a person, whose name is in the event."""
    task_id = await held(app, sql, provider, open_app)
    await app.resolve(task_id, "PAY", retry=True, by="ann")
    assert await app.decisions() == []
    await (await open_app()).run(until_idle=True)
    assert (await app.get(task_id)).result == 2
    assert provider.calls == ["chair", "chair"]
    (event,) = [e for e in await app.task_events(task_id) if e.event == "task_resolved"]
    assert event.details == {"step": "PAY", "item": None, "decision": "retry", "by": "ann"}


async def test_a_given_result_is_the_result_of_every_attempt(
    app: Regente, registry: Registry, sql: Sql, provider: Provider, open_app: Any
) -> None:
    """I2, Q6: as if the call had returned it; the function is not called."""
    seen: list[Receipt] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        seen.append(await task.step("PAY", provider.pay, "chair", on_unknown="hold"))
        if len(seen) == 1:
            raise Transient("after it")

    task_id = await held(app, sql, provider, open_app)
    await app.resolve(task_id, "PAY", result={"number": 77})
    await (await open_app()).run(until_idle=True)
    assert (await app.get(task_id)).status == "completed"
    assert seen == [Receipt(number=77), Receipt(number=77)]
    assert provider.calls == ["chair"]


async def test_a_result_that_does_not_fit_is_asked_for_again(
    app: Regente, paying: Registry, sql: Sql, provider: Provider, open_app: Any
) -> None:
    """I2: neither a call nor a dead letter."""
    task_id = await held(app, sql, provider, open_app)
    await app.resolve(task_id, "PAY", result="paid")
    await (await open_app()).run(until_idle=True)
    assert provider.calls == ["chair"]
    assert "what it is declared as" in task_row(sql, task_id)["error_message"]
    assert len(await app.decisions(task_id=task_id)) == 1
    await app.resolve(task_id, "PAY", result={"number": 5})
    await (await open_app()).run(until_idle=True)
    assert (await app.get(task_id)).result == 5


async def test_only_what_waits_can_be_decided_and_once(
    app: Regente, paying: Registry, sql: Sql, provider: Provider, open_app: Any
) -> None:
    """I2: of two people the first decides."""
    task_id = await held(app, sql, provider, open_app)
    with pytest.raises(InvalidInput):
        await app.resolve(task_id, "PAY")
    with pytest.raises(InvalidInput):
        await app.resolve(task_id, "PAY", retry=True, result=1)
    with pytest.raises(InvalidInput):
        await app.resolve(task_id, "PAY", result=float("nan"))
    with pytest.raises(NotFound):
        await app.resolve(99, "PAY", retry=True)
    with pytest.raises(IllegalTransition):
        await app.resolve(task_id, "OTHER", retry=True)
    decided = await asyncio.gather(
        *(app.resolve(task_id, "PAY", result={"number": n}) for n in range(5)),
        return_exceptions=True,
    )
    assert [type(one) for one in decided].count(type(None)) == 1
    assert [type(one) for one in decided].count(IllegalTransition) == 4
    assert events_of(sql, task_id).count("task_resolved") == 1


def refused() -> Receipt:
    raise Transient("refused")


def fatal() -> Receipt:
    raise Fatal("refused for good")


def unreachable() -> Receipt:
    raise ConnectionRefusedError


def not_connected() -> Receipt:
    try:
        raise TimeoutError
    except TimeoutError as error:
        raise httpx2.ConnectTimeout("no connection") from error


def found_out() -> Receipt:
    try:
        raise TimeoutError
    except TimeoutError as error:
        raise Transient("asked again: it was not paid") from error


@pytest.mark.parametrize("function", [refused, fatal, unreachable, not_connected, found_out])
async def test_a_clean_failure_is_no_unknown_outcome(
    app: Regente, registry: Registry, sql: Sql, function: Callable[[], Receipt]
) -> None:
    """W4: it is retried by the pipeline's policy as ever."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        await task.step("PAY", function, on_unknown="hold")

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["tries"]) == ("failed", 1 if function is fatal else 3)
    assert many(sql, "SELECT * FROM regente.intents") == []


async def timeout(task: Task) -> Any:
    return await task.step("PAY", asyncio.sleep, 60, timeout=0.05, on_unknown="hold")


async def lost_answer(task: Task) -> Any:
    def ask() -> None:
        raise UnknownOutcome("no answer came")

    return await task.step("PAY", ask, on_unknown="hold")


async def reset(task: Task) -> Any:
    def ask() -> None:
        raise ExceptionGroup("both", [ConnectionResetError()])

    return await task.step("PAY", ask, on_unknown="hold")


class Answers(asyncio.Protocol):
    """A server that takes a request, and then does this."""

    def __init__(self, then: Callable[[asyncio.Transport], object]) -> None:
        self._then = then

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, _: bytes) -> None:
        self._then(self._transport)


def half_an_answer(transport: asyncio.Transport) -> None:
    transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    transport.close()


def asking(then: Callable[[asyncio.Transport], object]) -> Callable[[Task], Awaitable[Any]]:
    async def http(task: Task) -> Any:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Answers(then), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()

        async def ask() -> int:
            async with httpx2.AsyncClient(timeout=0.5) as client:
                return (await client.post(f"http://{host}:{port}/", content=b"pay")).status_code

        async with server:
            return await task.step("PAY", ask, on_unknown="hold")

    return http


silent = asking(lambda _: None)
closed = asking(lambda transport: transport.close())
aborted = asking(lambda transport: transport.abort())
halved = asking(half_an_answer)


async def swallowed(task: Task) -> Any:
    await asyncio.gather(lost_answer(task), return_exceptions=True)
    return "as if it had been paid"


async def caught(task: Task) -> Any:
    try:
        return await lost_answer(task)
    except Exception:
        return "as if it had been paid"


@pytest.mark.parametrize(
    "way",
    [timeout, lost_answer, reset, silent, closed, aborted, halved, swallowed, caught],
    ids=[
        *("timeout", "lost answer", "reset", "silent server", "closed", "aborted", "half"),
        *("swallowed", "caught"),
    ],
)
async def test_an_attempt_that_loses_the_answer_holds_at_once(
    app: Regente, registry: Registry, sql: Sql, way: Callable[[Task], Awaitable[Any]]
) -> None:
    """I2: no second call, even if the pipeline catches all exceptions."""
    registry.pipeline("p", retry=FAST)(way)
    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    row = task_row(sql, task_id)
    assert (row["status"], row["attempt"], row["tries"]) == ("queued", 1, 0)
    assert [decision.step for decision in await app.decisions()] == ["PAY"]


async def test_a_default_step_is_called_again_and_leaves_no_intent(
    app: Regente, registry: Registry, sql: Sql, provider: Provider, open_app: Any
) -> None:
    """Q6: as before."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        await task.step("PAY", provider.pay, "chair")

    task_id = await lost(app, sql, provider)
    await (await open_app()).run(until_idle=True)
    assert (await app.get(task_id)).status == "completed"
    assert provider.calls == ["chair", "chair"]
    assert many(sql, "SELECT * FROM regente.intents") == []


async def test_each_item_of_a_loop_is_decided_by_itself(
    app: Regente, registry: Registry, sql: Sql, open_app: Any
) -> None:
    """I2: an unknown one cuts off no other, and all are asked for together."""
    calls: list[int] = []
    all_called, go_on = asyncio.Event(), asyncio.Event()

    async def pay(number: int) -> int:
        calls.append(number)
        if len(calls) == 3:
            all_called.set()
        await all_called.wait()
        if number == 0:
            raise UnknownOutcome("no answer")
        if number == 1:
            await asyncio.Event().wait()
        await go_on.wait()
        return number * 10

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[int]:
        return await task.each("PAY", range(4), pay, concurrency=3, on_unknown="hold")

    task_id = await app.enqueue("p", {})
    async with running(app):
        await until(all_called.is_set)
        go_on.set()
        await until(lambda: column(sql, "SELECT item FROM regente.steps") == [2])
    assert sorted(calls) == [0, 1, 2]
    await (await open_app()).run(until_idle=True)
    assert sorted(d.item or 0 for d in await app.decisions()) == [0, 1]
    await app.resolve(task_id, "PAY", item=0, result=5)
    assert (await app.get(task_id)).run_at.year > 4000, "item 1 still waits"
    await app.resolve(task_id, "PAY", item=1, result=6)
    await (await open_app()).run(until_idle=True)
    assert sorted(calls) == [0, 1, 2, 3]
    assert (await app.get(task_id)).result == [5, 6, 20, 30]


async def test_a_lost_runner_leaves_an_unknown_outcome(
    app: Regente, paying: Registry, sql: Sql, provider: Provider, open_app: Any
) -> None:
    """I3, F2: another runner asks instead of calling; the first one's answer comes too late."""
    task_id = await app.enqueue("p", {})
    other = await open_app()
    async with running(app):
        await until(provider.called.is_set)
        sql.execute("UPDATE regente.runners SET lease_until = regente.clock() - interval '1 s'")
        async with running(other):
            await until(lambda: task_row(sql, task_id)["error_code"] == "UNKNOWN_OUTCOME")
    assert provider.calls == ["chair"]


async def test_a_person_is_not_asked_about_another_call(
    app: Regente, registry: Registry, sql: Sql, provider: Provider, open_app: Any
) -> None:
    """Q6: another call than the intended one is a mismatch."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        what = "chair" if task.attempt == 1 else "desk"
        await task.step("PAY", provider.pay, what, on_unknown="hold")

    task_id = await lost(app, sql, provider)
    await (await open_app()).run(until_idle=True)
    assert (await app.get(task_id)).error_code == "REPLAY_MISMATCH"
    assert provider.calls == ["chair"]


async def test_an_intent_in_an_item_is_found_under_the_steps_earlier_name(
    app: Regente, registry: Registry, sql: Sql, provider: Provider, open_app: Any
) -> None:
    """I2: a renamed step in an item of `each` asks about the call under its earlier name."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        name, aliases = ("PAY", []) if task.attempt == 1 else ("SETTLE", ["PAY"])

        async def settle(what: str) -> int:
            receipt = await task.step(name, provider.pay, what, aliases=aliases, on_unknown="hold")
            return int(receipt.number)

        await task.each("ORDERS", ["chair"], settle)

    task_id = await lost(app, sql, provider)
    await (await open_app()).run(until_idle=True)
    assert provider.calls == ["chair"]
    assert [one.step for one in await app.decisions(task_id=task_id)] == ["ORDERS[0].PAY"]


@pytest.mark.parametrize("loop", [False, True], ids=["step", "each"])
async def test_an_intent_is_found_under_the_functions_earlier_name(
    app: Regente, registry: Registry, sql: Sql, provider: Provider, open_app: Any, loop: bool
) -> None:
    """Q6, I2: a function that was renamed on purpose is asked about, and goes on when decided."""

    async def settle(what: str) -> Receipt:
        return await provider.pay(what)

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        function: Any = provider.pay if task.attempt == 1 else settle
        aliases = ["Provider.pay"]
        if loop:
            await task.each("PAY", ["chair"], function, aliases=aliases, on_unknown="hold")
        else:
            await task.step("PAY", function, "chair", aliases=aliases, on_unknown="hold")

    task_id = await lost(app, sql, provider)
    await (await open_app()).run(until_idle=True)
    assert [one.step for one in await app.decisions(task_id=task_id)] == ["PAY"]
    await app.resolve(task_id, "PAY", item=0 if loop else None, retry=True)
    await app.run(until_idle=True)
    assert (await app.get(task_id)).status == "completed"
    assert provider.calls == ["chair", "chair"]


async def held(app: Regente, sql: Sql, provider: Provider, open_app: Any) -> int:
    """A task that waits for a decision."""
    task_id = await lost(app, sql, provider)
    await (await open_app()).run(until_idle=True)
    assert len(await app.decisions()) == 1
    return task_id
