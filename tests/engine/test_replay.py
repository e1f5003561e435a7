"""Replay: a later attempt sees what the first attempt saw, in value, type and order."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from regente import Regente, Retry, Transient
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Sql, column, one

FAST = Retry(max_attempts=3, first=0.01, jitter=False)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Kind(StrEnum):
    SHOP = "shop"
    MAKER = "maker"


class Place(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Parsed:
    name: str
    price: Decimal
    at: datetime
    tags: frozenset[int]
    by_page: dict[int, float]
    body: bytes


class Offer(BaseModel):
    name: str
    price: float
    colour: Colour
    lasts: timedelta
    raw: dict[str, Any]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, ser_json_bytes="base64", val_json_bytes="base64")

    day: date
    body: bytes
    sizes: tuple[int, ...]


def same(one: Any, other: Any) -> bool:
    """Equal in value, type and order, at every depth."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, BaseModel):
        return same(dict(one), dict(other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


def returning(value: Any, hint: Any = Any) -> Callable[..., Any]:
    async def made(*_: Any) -> Any:
        return value

    made.__annotations__ = {"return": hint}
    return made


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
numbers = st.integers() | st.integers(-(10**400), 10**400)
floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e22, -0.0, 1e300])
scalars = st.none() | st.booleans() | numbers | floats | texts
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=6),
    max_leaves=12,
)
odd = (
    st.tuples(scalars, scalars)
    | st.sets(st.integers())
    | st.dictionaries(st.integers() | floats | st.none(), scalars, max_size=4)
    | st.datetimes()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.sampled_from([*Colour, *Size, *Kind])
    | texts.map(str.encode)
)
moments = st.datetimes(timezones=st.just(UTC)) | st.datetimes()
money = st.decimals(allow_nan=False, allow_infinity=False)
typed: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (float, floats),
    (dict[str, float], st.dictionaries(texts, floats, max_size=5)),
    (dict[int, str], st.dictionaries(st.integers(), texts, max_size=5)),
    (dict[date, Size], st.dictionaries(st.dates(), st.sampled_from(Size), max_size=0)),
    (tuple[int, str, float], st.tuples(st.integers(), texts, floats)),
    (set[int], st.sets(st.integers())),
    (frozenset[date], st.frozensets(st.dates(), max_size=4)),
    (datetime, moments),
    (timedelta, st.timedeltas(timedelta(-1000), timedelta(1000))),
    (Decimal, money),
    (bytes, texts.map(str.encode)),
    (Colour, st.sampled_from(Colour)),
    (list[Kind], st.lists(st.sampled_from(Kind))),
    (Place, st.builds(Place, st.integers(), floats)),
    (
        Parsed,
        st.builds(
            Parsed,
            texts,
            money,
            moments,
            st.frozensets(st.integers(), max_size=4),
            st.dictionaries(st.integers(), floats, max_size=4),
            texts.map(str.encode),
        ),
    ),
    (
        Offer,
        st.builds(
            Offer,
            name=texts,
            price=floats,
            colour=st.sampled_from(Colour),
            lasts=st.timedeltas(timedelta(-1000), timedelta(1000)),
            raw=st.dictionaries(texts, plain, max_size=4),
        ),
    ),
    (
        Strict,
        st.builds(
            Strict,
            day=st.dates(),
            body=st.binary(max_size=8),
            sizes=st.lists(st.integers(), max_size=3).map(tuple),
        ),
    ),
    (list[Offer | Place] | None, st.none()),
]


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    hint, values = draw(st.sampled_from(typed))
    return draw(values), hint


def seen_by_two_attempts(
    url: str, made: list[Callable[..., Any]], in_a_loop: bool = False
) -> list[list[Any]]:
    """What two attempts at one task got from steps that return these values."""
    got: list[list[Any]] = [[], []]
    registry = Registry()

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        for function in made:
            if in_a_loop:
                got[task.attempt - 1] += await task.each("A", [0, 1], function)
            else:
                got[task.attempt - 1].append(await task.step("A", function))
        if task.attempt == 1:
            raise Transient("once more")

    async def work() -> None:
        async with Regente(url, pipelines=registry) as app:
            task_id = await app.enqueue("p", {})
            await app.run(until_idle=True)
            info = await app.get(task_id)
            assert (info.status, info.attempt) == ("completed", 2), info.error_message

    asyncio.run(work())
    return got


MANY = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(st.lists(plain | odd, min_size=10, max_size=25))
@MANY
def test_what_the_first_attempt_saw_every_replay_sees(database_url: str, values: list[Any]) -> None:
    """Q6: everything storable, through the real database: value, type and order."""
    first, replay = seen_by_two_attempts(database_url, [returning(value) for value in values])
    assert same(first, replay)


@given(st.lists(typed_values(), min_size=10, max_size=25), st.booleans())
@MANY
def test_a_declared_type_comes_back_as_the_function_returned_it(
    database_url: str, values: list[tuple[Any, Any]], in_a_loop: bool
) -> None:
    """Q6: models, dataclasses, dates, numbers and collections, from steps and from loops."""
    made = [returning(value, hint) for value, hint in values]
    first, replay = seen_by_two_attempts(database_url, made, in_a_loop)
    returned = [value for value, _ in values for _ in range(2 if in_a_loop else 1)]
    assert same(first, returned)
    assert same(replay, returned)


async def test_a_loop_over_a_steps_dict_gives_each_name_its_own_price(
    app: Regente, registry: Registry
) -> None:
    """Q6: the keys keep their order."""

    async def names() -> dict[str, int]:
        return {"zebra": 1, "ant": 2, "bee": 3}

    async def price(name: str) -> str:
        return f"price of {name}"

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> dict[str, str]:
        found = await task.step("NAMES", names)
        prices = {name: await task.step("PRICE", price, name) for name in found}
        again = await task.each("AGAIN", found, price)
        if task.attempt == 1:
            raise Transient("once more")
        assert list(prices.values()) == again
        return prices

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    result = (await app.get(task_id)).result
    assert result == {name: f"price of {name}" for name in ("zebra", "ant", "bee")}


@pytest.mark.parametrize("loop", [False, True], ids=["step", "each"])
async def test_a_result_that_is_not_what_was_declared_is_refused(
    app: Regente, registry: Registry, sql: Sql, loop: bool
) -> None:
    """Q6, F15: at the first attempt, before it is recorded: no replay can meet it."""
    calls: list[int] = []

    def wrong(_: int = 0) -> Offer:
        calls.append(1)
        return {"name": "chair"}  # type: ignore[return-value]

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        if loop:
            await task.each("A", [1], wrong)
        else:
            await task.step("A", wrong)

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert calls == [1]
    assert column(sql, "SELECT name FROM regente.steps") == []
    task = one(sql, "SELECT status, error_code, error_message FROM regente.tasks")
    assert (task["status"], task["error_code"]) == ("failed", "INVALID_OUTPUT")
    assert "the result of A" in task["error_message"]


async def price(name: str, *, currency: str = "BRL") -> str:
    return f"{name} in {currency}"


async def weight(name: str) -> str:
    return f"weight of {name}"


@dataclass(frozen=True)
class Item:
    name: str

    async def price(self) -> str:
        return self.name


class Shop:
    """A service: it counts by its type."""

    async def price(self, name: str) -> str:
        return f"{name} at {id(self)}"


class OtherShop(Shop):
    pass


class Sku:
    """A value: it compares by its content."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sku) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number)


def capturing(name: Any) -> Callable[..., str]:
    return lambda *_: f"price of {name}"


def counting() -> Callable[..., int]:
    calls, seen = 0, []

    def count(*_: Any) -> int:
        nonlocal calls
        calls += 1
        seen.append(calls)
        return calls

    return count


def replayed_steps(count: Callable[..., int]) -> Ask:
    """Steps of a function that changes what it captured; a replay does not call it."""

    async def ask(task: Task) -> list[int]:
        return [await task.step("A", count) for _ in range(3)]

    return ask


def asked_of(task: Task, shop: Shop) -> Any:
    return task.step("A", lambda: shop.price(str(task.attempt)))


Ask = Callable[[Task], Any]
CHANGED: dict[str, tuple[Ask, Ask]] = {
    "arguments": (lambda t: t.step("A", price, "ant"), lambda t: t.step("A", price, "bee")),
    "function": (lambda t: t.step("A", price, "ant"), lambda t: t.step("A", weight, "ant")),
    "keyword": (
        lambda t: t.step("A", price, "ant", currency="BRL"),
        lambda t: t.step("A", price, "ant", currency="EUR"),
    ),
    "partial": (
        lambda t: t.step("A", partial(price, "ant")),
        lambda t: t.step("A", partial(price, "bee")),
    ),
    "number and text": (lambda t: t.step("A", abs, 1), lambda t: t.step("A", abs, 1.5)),
    "value's method": (
        lambda t: t.step("A", Item("ant").price),
        lambda t: t.step("A", Item("bee").price),
    ),
    "service": (
        lambda t: t.step("A", Shop().price, "ant"),
        lambda t: t.step("A", OtherShop().price, "ant"),
    ),
    "dataclass": (
        lambda t: t.step("A", price, Item("ant")),
        lambda t: t.step("A", price, Item("bee")),
    ),
    "captured value": (
        lambda t: t.step("A", capturing("ant")),
        lambda t: t.step("A", capturing("bee")),
    ),
    "default of a lambda": (
        lambda t: t.step("A", lambda name="ant": name),
        lambda t: t.step("A", lambda name="bee": name),
    ),
    "value captured by an item": (
        lambda t: t.each("A", [1], capturing("ant")),
        lambda t: t.each("A", [1], capturing("bee")),
    ),
    "function captured by a lambda": (
        lambda t: t.step("A", capturing(price)),
        lambda t: t.step("A", capturing(weight)),
    ),
    "value object captured by a lambda": (
        lambda t: t.step("A", capturing(Item("ant"))),
        lambda t: t.step("A", capturing(Item("bee"))),
    ),
    "constant in a lambda": (
        lambda t: t.step("A", lambda: "ant"),
        lambda t: t.step("A", lambda: "bee"),
    ),
    "order of constants in a lambda": (
        lambda t: t.step("A", lambda: price("ant", currency="BRL")),
        lambda t: t.step("A", lambda: price("BRL", currency="ant")),
    ),
    "function called by a lambda": (
        lambda t: t.step("A", lambda: price("ant")),
        lambda t: t.step("A", lambda: weight("ant")),
    ),
    "method called by a lambda": (
        lambda t: t.step("A", lambda: "ant".upper() or 1),
        lambda t: t.step("A", lambda: "ant".title() or 1),
    ),
    "operator in a lambda": (
        lambda t: t.step("A", lambda: t.tries + 5),
        lambda t: t.step("A", lambda: t.tries - 5),
    ),
    "lambda inside a lambda": (
        lambda t: t.each("A", [1], lambda _: sorted([1], key=lambda n: n * 2)),
        lambda t: t.each("A", [1], lambda _: sorted([1], key=lambda n: n * 3)),
    ),
    "lambda as an argument": (
        lambda t: t.step("A", max, [1, 2], key=lambda n: n),
        lambda t: t.step("A", max, [1, 2], key=lambda n: -n * 2),
    ),
    "object that compares by content": (
        lambda t: t.step("A", str, Sku(1)),
        lambda t: t.step("A", str, Sku(2)),
    ),
    "namespace": (
        lambda t: t.step("A", str, SimpleNamespace(name="ant")),
        lambda t: t.step("A", str, SimpleNamespace(name="bee")),
    ),
    "array": (
        lambda t: t.step("A", sum, array("d", [1.0])),
        lambda t: t.step("A", sum, array("d", [2.0])),
    ),
    "bytes": (lambda t: t.step("A", len, b"a" * 900), lambda t: t.step("A", len, b"b" * 900)),
    "late in a long text": (
        lambda t: t.step("A", len, "a" * 900 + "b"),
        lambda t: t.step("A", len, "a" * 900 + "c"),
    ),
    "item": (
        lambda t: t.each("A", ["ant", "bee"], price),
        lambda t: t.each("A", ["bee", "ant"], price),
    ),
    "loop's function": (
        lambda t: t.each("A", ["ant"], price),
        lambda t: t.each("A", ["ant"], weight),
    ),
    "fewer items": (
        lambda t: t.each("A", ["ant", "bee"], price),
        lambda t: t.each("A", ["ant"], price),
    ),
    "a loop for a step": (
        lambda t: t.each("A", ["ant"], price),
        lambda t: t.step("A", price, "ant"),
    ),
    "a step for a loop": (
        lambda t: t.step("A", price, "ant"),
        lambda t: t.each("A", ["ant"], price),
    ),
    "declared type": (
        lambda t: t.step("A", returning("ant", str)),
        lambda t: t.step("A", returning("ant", int | None)),
    ),
}


@pytest.mark.parametrize("swallowed", [False, True], ids=["raised", "swallowed"])
@pytest.mark.parametrize("what", CHANGED)
async def test_another_call_than_the_recorded_one_ends_the_task(
    app: Regente, registry: Registry, sql: Sql, what: str, swallowed: bool
) -> None:
    """Q6, I2: a dead letter that shows both calls; what the pipeline catches changes nothing."""
    first, second = CHANGED[what]
    late: list[str] = []

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> str:
        if task.attempt == 1:
            await first(task)
            raise Transient("once more")
        if not swallowed:
            return str(await second(task))
        await asyncio.gather(second(task), return_exceptions=True)
        late.append(str(await asyncio.gather(task.step("B", weight, "x"), return_exceptions=True)))
        return "as if nothing were wrong"

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    info = await app.get(task_id)
    assert (info.status, info.error_code, info.attempt) == ("failed", "REPLAY_MISMATCH", 2)
    failure = one(sql, "SELECT step, class, details FROM regente.failures WHERE attempt = 2")
    assert (failure["step"], failure["class"]) == ("A", "fatal")
    assert failure["details"]["step"] == "A"
    assert failure["details"]["recorded"] != failure["details"]["present"]
    assert column(sql, "SELECT DISTINCT name FROM regente.steps") == ["A"]


async def test_the_same_calls_in_another_order_end_the_task(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q6: the n-th call of a name is compared with the n-th call of the first attempt."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> list[str]:
        names = ["zebra", "ant"] if task.attempt == 1 else ["ant", "zebra"]
        found = [await task.step("PRICE", price, name) for name in names]
        if task.attempt == 1:
            raise Transient("once more")
        return found

    await app.enqueue("p", {})
    await app.run(until_idle=True)
    failure = one(sql, "SELECT message, details FROM regente.failures WHERE attempt = 2")
    assert failure["details"] == {
        "step": "PRICE",
        "recorded": 'price("zebra")',
        "present": 'price("ant")',
    }
    assert 'price("zebra")' in failure["message"]


SAME: dict[str, tuple[Ask, Ask]] = {
    "order of keys": (
        lambda t: t.step("A", price, {"b": 1, "a": 2}),
        lambda t: t.step("A", price, {"a": 2, "b": 1}),
    ),
    "sets": (
        lambda t: t.step("A", price, set("abcdefgh")),
        lambda t: t.step("A", price, set("hgfedcba")),
    ),
    "keyword order": (
        lambda t: t.step("A", dict, a=1, b=2),
        lambda t: t.step("A", dict, b=2, a=1),
    ),
    "objects": (
        lambda t: t.step("A", Shop().price, object()),
        lambda t: t.step("A", Shop().price, object()),
    ),
    "the task": (lambda t: t.step("A", str, t), lambda t: t.step("A", str, t)),
    "closures": (lambda t: asked_of(t, Shop()), lambda t: asked_of(t, Shop())),
    "values that are equal": (
        lambda t: t.step("A", str, (Sku(1), SimpleNamespace(a=1, b=[2]))),
        lambda t: t.step("A", str, (Sku(1), SimpleNamespace(b=[2], a=1))),
    ),
    "arrays that are equal": (
        lambda t: t.step("A", sum, array("d", [1.0])),
        lambda t: t.step("A", sum, array("d", [1.0])),
    ),
    "captured state": (replayed_steps(counting()), replayed_steps(counting())),
    "renamed step": (
        lambda t: t.step("OLD", price, "ant"),
        lambda t: t.step("NEW", price, "ant", aliases=["OLD"]),
    ),
    "renamed function": (
        lambda t: t.step("A", price, "ant"),
        lambda t: t.step("A", weight, "ant", aliases=["price"]),
    ),
    "renamed loop": (
        lambda t: t.each("OLD", ["ant", "bee"], price),
        lambda t: t.each("NEW", ["ant", "bee"], weight, aliases=["OLD", "price"]),
    ),
    "a changed lambda": (
        lambda t: t.step("A", lambda: "ant"),
        lambda t: t.step("A", lambda: "bee", aliases=['<lambda>.<locals>.<lambda>(code: "ant")']),
    ),
    "a longer list": (
        lambda t: t.each("A", ["ant"], price),
        lambda t: t.each("A", ["ant", "bee"], price),
    ),
}


@pytest.mark.parametrize("what", SAME)
async def test_the_same_call_in_other_clothes_is_the_same(
    app: Regente, registry: Registry, sql: Sql, what: str
) -> None:
    """Q6: what an attempt cannot help changing, and what was renamed on purpose."""
    first, second = SAME[what]

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> None:
        if task.attempt == 1:
            await first(task)
            raise Transient("once more")
        await second(task)

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    info = await app.get(task_id)
    assert (info.status, info.error_message) == ("completed", None)


async def test_a_record_of_older_code_is_not_compared(
    app: Regente, registry: Registry, sql: Sql
) -> None:
    """Q10: tasks that were under way at an upgrade continue."""

    @registry.pipeline("p", retry=FAST)
    async def run(task: Task) -> str:
        found = await task.step("A", price, "ant" if task.attempt == 1 else "bee")
        if task.attempt == 1:
            await asyncio.to_thread(sql.execute, "UPDATE regente.steps SET call = NULL")
            raise Transient("once more")
        return found

    task_id = await app.enqueue("p", {})
    await app.run(until_idle=True)
    assert (await app.get(task_id)).result == "ant in BRL"
