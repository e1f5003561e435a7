"""The text of a step's call: readable, bounded, the same in every process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr

from regente.engine.calls import MAX_CHARACTERS, call_text


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    name: str
    key: SecretStr
    tags: set[str] = set()


@dataclass
class Job:
    name: str
    seen: list[str] = field(default_factory=list, compare=False)


@dataclass
class Service:
    """Holds state, so it counts by its type."""

    calls: int

    def work(self) -> None: ...

    @classmethod
    def make(cls) -> None: ...


@dataclass
class Broken:
    name: str


class Account:
    """Compares by its content, of which a part is secret."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self._password = password

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(self.user)

    @cached_property
    def greeting(self) -> str:
        return f"Hello {self.user}"


def greeted() -> Account:
    account = Account("ana", "s3cret")
    assert account.greeting == "Hello ana"
    return account


class Callable7:
    def __call__(self) -> int:
        return 7


def work(*_: Any, **__: Any) -> None: ...


ORDER = Order(name="chair", key=SecretStr("s3cret"), tags={"b", "a"})


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "text"),
    [
        (work, (), {}, "work()"),
        (work, (1, 1.0, None, True, "é"), {}, 'work(1, 1.0, null, true, "é")'),
        (work, ({"b": [1], "a": ()},), {"z": 1, "a": 2}, 'work({"a": [], "b": [1]}, a=2, z=1)'),
        (partial(work, 1, x=2), (3,), {"x": 4}, "work(1, 3, x=4)"),
        (partial(partial(work, 1), 2), (), {}, "work(1, 2)"),
        (work, ({2: "a", "b": 1, None: 0},), {}, 'work({"2": "a", "b": 1, "null": 0})'),
        (work, ({(1, 2): "a"},), {}, 'work({"[1, 2]": "a"})'),
        (work, ({"b", "a"}, frozenset({2, 1})), {}, 'work(["a", "b"], [1, 2])'),
        (work, (Colour.RED, Decimal("1.50")), {}, 'work("Colour.RED", "1.50")'),
        (work, (datetime(2026, 1, 2, tzinfo=UTC),), {}, 'work("2026-01-02T00:00:00+00:00")'),
        (work, (UUID(int=1), Path("/a")), {}, f'work("{UUID(int=1)}", "/a")'),
        (work, (range(3), object(), work), {}, 'work("range(0, 3)", "<object>", "work")'),
        (work, ((n for n in "ab"), partial(work, 1)), {}, 'work("<generator>", "work(1)")'),
        (work, (Job("a", ["x"]), Job), {}, 'work({"name": "a"}, "Job")'),
        (
            work,
            (ORDER,),
            {},
            'work({"key": "<SecretStr>", "name": "chair", "tags": ["a", "b"]})',
        ),
        (Service(1).work, (), {}, "Service.work()"),
        (Service.make, (), {}, "Service.make()"),
        (
            work,
            (greeted(), SimpleNamespace(b=[1], a=2)),
            {},
            'work({"user": "ana"}, {"a": 2, "b": [1]})',
        ),
        (Callable7(), (), {}, "Callable7()"),
        (lambda: work(1, x="a"), (), {}, '<lambda>(code: work 1 "a" ["x"])'),
        (work, (lambda n: -n.name,), {}, 'work("<lambda>(code: name UNARY_NEGATIVE)")'),
        ("abc".upper, (), {}, 'str.upper("abc")'),
        (abs, (-1,), {}, "abs(-1)"),
        (work, ("a\x00b\ud800",), {}, 'work("a\\u0000b\\ud800")'),
        (work, (float("nan"),), {}, "work(NaN)"),
    ],
)
def test_a_call_as_text(function: Any, args: Any, kwargs: Any, text: str) -> None:
    """Q6: the function without its module, the arguments by content, objects by type."""
    assert call_text(function, args, kwargs) == text


def test_a_long_call_ends_with_a_hash_of_the_whole() -> None:
    """Q6: bounded, and different where the calls are."""
    one, two = (call_text(work, ("x" * 9_000 + end,), {}) for end in "ab")
    assert len(one) <= MAX_CHARACTERS
    assert one != two
    assert one.startswith('work("xxx')
    assert "9009 characters, sha256" in one
    assert call_text(work, (b"a" * 99,), {}) != call_text(work, (b"b" * 99,), {})


def test_what_cannot_be_described_counts_by_its_type() -> None:
    """Q6: loops and objects that fail neither raise nor are consumed."""

    broken, endless = Broken("a"), [1]
    del broken.name
    endless.append(endless)  # type: ignore[arg-type]
    assert call_text(work, (broken, 1), {}) == 'work("<Broken>", 1)'
    assert call_text(work, (endless,), {}) == 'work("<list>")'
    items = iter([1, 2])
    call_text(work, (items,), {})
    assert list(items) == [1, 2]


def test_functions_that_call_themselves_have_a_text() -> None:
    """Q6: what they take from the code around them are they themselves."""
    count: Any = lambda n: count(n - 1)  # noqa: E731

    def other(n: int) -> Any:
        return other(n - 1)

    prefix = "test_functions_that_call_themselves_have_a_text.<locals>."
    assert call_text(count, (1,), {}) == f"{prefix}<lambda>(1, code: count 1 -)"
    assert call_text(other, (1,), {}) == f'{prefix}other(1, other: "{prefix}other")'


def test_a_call_has_the_same_text_in_every_process() -> None:
    """Q6, F17: also with another seed of the hashes, and where the file is the main module."""
    program = (
        "from tests.unit.test_calls import *\n"
        "print(call_text(work, ({'b', 'a', 'c'}, ORDER, object(), Service(1)), {'x': {1: 'a'}}))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "42")
    }
    assert len(texts) == 1, texts
