"""Formats rows as PostgreSQL's COPY text, column by column so that the loops run in C."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

NULL = r"\N"
# The backslash first: the other replacements add backslashes.
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_encode_json = msgspec.json.Encoder().encode


class Kind(StrEnum):
    """How a JSON value is written for a column; PostgreSQL decides whether it fits."""

    JSON = "json"
    ARRAY = "array"
    PLAIN = "plain"


class NulInText(ValueError):
    r"""A text has \u0000, which PostgreSQL cannot store."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


def copy_lines(columns: Sequence[tuple[Kind, Sequence[Any]]]) -> list[str]:
    return list(
        map("\t".join, zip(*(copy_column(kind, values) for kind, values in columns), strict=True))
    )


def copy_column(kind: Kind, values: Sequence[Any]) -> Sequence[str]:
    types = set(map(type, values))
    if kind is Kind.PLAIN and types == {int}:
        return list(map(str, values))
    if kind is Kind.PLAIN and types == {str}:
        return _escaped(values)
    write = {Kind.JSON: json_text, Kind.ARRAY: array_text, Kind.PLAIN: plain_text}[kind]
    written = _escaped(["" if value is None else write(value) for value in values])
    if type(None) not in types:
        return written
    return [NULL if value is None else text for value, text in zip(values, written, strict=True)]


def json_text(value: Any) -> str:
    return _encode_json(value).decode()


def plain_text(value: Any) -> str:
    if type(value) is str:
        return value
    return json_text(value)


def array_text(value: Any) -> str:
    """A list becomes an array literal; PostgreSQL decides about any other value."""
    if not isinstance(value, list):
        return plain_text(value)
    return "{" + ",".join(map(_array_element, value)) + "}"


def _array_element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return array_text(value)
    text = plain_text(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _escaped(texts: Sequence[str]) -> Sequence[str]:
    joined = "\0".join(texts)
    if joined.count("\0") != len(texts) - 1:
        raise NulInText
    found = [character for character in _ESCAPES if character in joined]
    if not found:
        return texts
    for character in found:
        joined = joined.replace(character, _ESCAPES[character])
    return joined.split("\0")
