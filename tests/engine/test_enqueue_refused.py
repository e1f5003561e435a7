"""Invalid input is refused with an error that names the reason, and nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel, Field

from regente import InvalidArgs, InvalidInput, NotFound, PayloadTooLarge, Regente, UnknownPipeline
from regente.engine.pipeline import Registry
from regente.engine.task import Task
from tests.engine.helpers import Sql, one

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001


class Price(BaseModel):
    product: str
    amount: float = Field(gt=0)


@dataclass
class Page:
    url: str
    number: int


@pytest.fixture(autouse=True)
def pipelines(registry: Registry) -> None:
    async def nothing(task: Task[Any]) -> None:
        return None

    for name, kind in (("any", dict), ("price", Price), ("page", Page)):
        registry.pipeline(name, args=kind)(nothing)


@pytest.fixture(autouse=True)
def nothing_stored(sql: Sql) -> Iterator[None]:
    """Checks that the database has no task, event or batch after each test."""
    yield
    counts = [
        one(sql, f"SELECT count(*) FROM regente.{table}")["count"]
        for table in ("tasks", "events", "batches")
    ]
    assert counts == [0, 0, 0]


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE


async def test_unknown_pipeline(app: Regente) -> None:
    """I1: the message lists the known pipelines."""
    with pytest.raises(
        UnknownPipeline, match="no pipeline is called 'prise'; known: any, page, price"
    ):
        await app.enqueue("prise", {})


@pytest.mark.parametrize("name", ["", "\x00", "\ud800", None, 7, ["any"]])
async def test_a_value_that_is_no_pipeline_name(app: Regente, name: Any) -> None:
    """F15: any such value is an unknown pipeline."""
    with pytest.raises(UnknownPipeline):
        await app.enqueue(name, {})


@pytest.mark.parametrize(
    ("pipeline", "args", "message"),
    [
        ("price", {"amount": 2}, "product: Field required"),
        ("price", {"product": "chair", "amount": -1}, "amount: Input should be greater than 0"),
        ("price", {"product": "chair", "amount": "many"}, "amount: Input should be a valid number"),
        ("page", {"url": "u"}, "number"),
        ("page", {"url": "u", "number": "x"}, "number: Input should be a valid integer"),
        ("any", [1, 2], "must be a JSON object, not list"),
        ("any", "text", "must be a JSON object, not str"),
        ("any", 7, "must be a JSON object, not int"),
        ("any", {"a": float("nan")}, "cannot be stored as JSON: .*[Nn]a[Nn]|not JSON compliant"),
        ("any", {"a": [float("inf")]}, "cannot be stored as JSON"),
        ("price", {"product": "chair", "amount": float("inf")}, "cannot be stored as JSON"),
        ("any", {"a": "x\x00y"}, "u0000"),
        ("any", {"a\x00": 1}, "u0000"),
        ("any", {"a": [{"b": ("c", "\x00")}]}, "u0000"),
        ("price", {"product": "\x00", "amount": 1}, "u0000"),
        ("page", {"url": "\x00", "number": 1}, "u0000"),
        ("any", {"a": "\ud800"}, "lone surrogate"),
        ("any", {"\udfff": 1}, "lone surrogate"),
        ("any", deep(10_000), "nested"),
        ("any", deep(500), "nested more than 200 levels"),
        ("any", {**deep(600), "b": "\\u0000"}, "nested"),
        ("any", CYCLE, "[Cc]ircular|contains itself"),
        ("any", {"a": object()}, "unknown type|not JSON serializable|Unable to serialize"),
        ("any", {"a": {1, object()}}, "unknown type|not JSON serializable|Unable to serialize"),
        ("any", {("a", "b"): 1}, "keys must be str"),
    ],
    ids=range(25),
)
async def test_invalid_arguments(app: Regente, pipeline: str, args: Any, message: str) -> None:
    """F15, Z3: the error names the field, alone and among others."""
    with pytest.raises(InvalidArgs, match=message):
        await app.enqueue(pipeline, args)
    good = {"product": "chair", "amount": 1, "url": "u", "number": 1}
    with pytest.raises(InvalidArgs, match=message):
        await app.enqueue_many(pipeline, [good, args, good])


async def test_too_large(app: Regente) -> None:
    """F15: one byte above the limit is refused, exactly the limit is accepted."""
    overhead = len(json.dumps({"a": ""}, separators=(",", ":")))
    with pytest.raises(PayloadTooLarge, match="takes 1,048,577 bytes as JSON; at most 1,048,576"):
        await app.enqueue("any", {"a": "x" * (1024 * 1024 - overhead + 1)})
    with pytest.raises(PayloadTooLarge):
        await app.enqueue("any", {"a": "é" * (1024 * 1024 // 2)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run_at": NAIVE}, "run_at needs a time zone"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"priority": 32768}, "priority 32768 is out of range"),
        ({"priority": -32769}, "priority -32769 is out of range"),
        ({"priority": "high"}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"key": ""}, "a key has 1 to 500 characters"),
        ({"key": "k" * 501}, "a key has 1 to 500 characters"),
        ({"key": "a\x00b"}, "the key contains a character"),
        ({"key": "\ud800"}, "the key contains a character"),
        ({"key": 7}, "key"),
        ({"max_attempts": 0}, "max_attempts is 1 to 1000"),
        ({"max_attempts": 1001}, "max_attempts is 1 to 1000"),
        ({"max_attempts": "2"}, "max_attempts"),
        ({"batch": ""}, "a batch's name has 1 to 200 characters"),
        ({"batch": "\x00"}, "a batch's name"),
        ({"batch": "\ud800"}, "a batch's name"),
        ({"batch": 2**70}, "is not an id"),
        ({"batch": 1.5}, "is not an id"),
        ({"batch": "new", "priority": 99_999}, "priority 99999 is out of range"),
        ({"batch": "new", "run_at": NAIVE}, "run_at needs a time zone"),
    ],
)
async def test_invalid_options(app: Regente, options: dict[str, Any], message: str) -> None:
    """F15: refused by name, also among many; no new batch is opened for them."""
    with pytest.raises(InvalidInput, match=message):
        await app.enqueue("any", {}, **options)
    many: dict[str, Any] = (
        {**options, "keys": [options["key"]]} if "key" in options else dict(options)
    )
    many.pop("key", None)
    with pytest.raises(InvalidInput, match=message):
        await app.enqueue_many("any", [{}], **many)


async def test_keys_must_match_the_arguments_in_number(app: Regente) -> None:
    """S5: one key for each task, or none."""
    with pytest.raises(InvalidInput, match="2 keys for 1 tasks"):
        await app.enqueue_many("any", [{}], keys=["a", "b"])


async def test_one_that_is_refused_among_many_stores_none(app: Regente) -> None:
    """Arguments are checked while the first are stored; a refused last one rolls all back."""
    with pytest.raises(InvalidArgs):
        await app.enqueue_many("any", [{"n": n} for n in range(3_000)] + [{"n": float("nan")}])


async def test_an_unknown_batch_stores_no_task(app: Regente) -> None:
    """I9: a task never belongs to a batch that does not exist."""
    with pytest.raises(NotFound, match="there is no batch 99"):
        await app.enqueue("any", {}, batch=99)
    with pytest.raises(NotFound, match="there is no batch 99"):
        await app.enqueue_many("any", [{}] * 300, batch=99)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14))),
    ],
)
async def test_a_time_that_could_not_be_read_again(app: Regente, moment: datetime) -> None:
    """F15: in UTC it is before the year 1, or after 9999, which PostgreSQL would store."""
    with pytest.raises(InvalidInput, match="years 1 to 9999"):
        await app.enqueue("any", run_at=moment)
