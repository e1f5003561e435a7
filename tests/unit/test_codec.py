"""JSON in and out: strict input, typed output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel

from regente import InvalidArgs, PayloadTooLarge
from regente.engine.codec import MAX_DEPTH, decode, encode, is_storable, validate


class Model(BaseModel):
    name: str
    inner: list[Model] = []


class Priced(BaseModel):
    price: float


@dataclass
class Data:
    when: datetime
    tags: set[str]


def nested(levels: int, kind: str = "list") -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1.5,
        "",
        "ü\u2028😀",
        [],
        {},
        [1, [2, {"a": None}]],
        {"a": "\\u0000"},
        10**400,
        {"1": 2},
    ],
)
def test_what_is_json_comes_back_as_it_was(value: Any) -> None:
    """Q6: the same value, and text that PostgreSQL takes."""
    assert json.loads(encode(value, what="x")) == value


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_the_depth_limit_is_exact(kind: str) -> None:
    """F15: 200 levels pass, one more does not, also behind brackets in texts and many siblings."""
    noise = ["[[[[{{{{" * 100] * 300
    encode([nested(MAX_DEPTH - 1, kind), *noise], what="x")
    with pytest.raises(InvalidArgs, match=f"nested more than {MAX_DEPTH} levels"):
        encode([nested(MAX_DEPTH, kind), *noise], what="x")


def test_depth_and_nul_are_found_inside_models() -> None:
    """F15: excluded fields of a model are checked too."""
    deep = Model(name="x")
    for _ in range(MAX_DEPTH):
        deep = Model(name="x", inner=[deep])
    with pytest.raises(InvalidArgs, match="nested"):
        encode({"model": deep}, what="x")
    with pytest.raises(InvalidArgs, match="u0000"):
        encode([Model(name="a\x00b")], what="x")
    with pytest.raises(InvalidArgs, match="u0000"):
        encode({"a": ["\\u0000", Data(datetime(2026, 1, 1), {"\x00"})]}, what="x")  # noqa: DTZ001


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), [float("-inf")], Priced(price=float("nan"))]
)
def test_numbers_that_json_does_not_have(value: Any) -> None:
    """F15: not silently null."""
    with pytest.raises(InvalidArgs, match="cannot be stored as JSON"):
        encode(value, what="x")


def test_the_size_is_counted_in_bytes() -> None:
    """F15: of the text as it is sent."""
    assert encode("é" * 4, what="x", max_bytes=10)
    with pytest.raises(PayloadTooLarge, match="takes 12 bytes as JSON; at most 10"):
        encode("é" * 5, what="x", max_bytes=10)


def test_messages_name_what_was_wrong() -> None:
    """F15: the message is readable."""
    with pytest.raises(
        InvalidArgs, match=r"the result of FETCH cannot be stored as JSON: .*unknown type"
    ):
        encode(object(), what="the result of FETCH")
    with pytest.raises(InvalidArgs, match=r"args are not valid: inner\.0\.name: Field required"):
        validate({"name": "a", "inner": [{}]}, Model, what="args")


def test_decoding_validates_the_declared_type() -> None:
    """Q6."""
    assert decode(None, Model) is None
    assert decode('{"name":"a"}', Model) == Model(name="a")
    assert decode('{"name":"a"}') == {"name": "a"}
    assert decode("[1]", list) == [1]
    assert decode("null", Model | None) is None


@pytest.mark.parametrize(
    ("text", "storable"),
    [("", True), ("ü", True), ("a\x00", False), ("\ud800", False), ("\\u0000", True)],
)
def test_text_that_postgresql_takes(text: str, storable: bool) -> None:
    """F15."""
    assert is_storable(text) is storable
