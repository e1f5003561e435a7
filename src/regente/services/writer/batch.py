"""The rows of one batch, sorted out before PostgreSQL sees them: what is no row, duplicates, and
rows of one shape together.

A field that an item does not have keeps the column's value (or its default), and a field that is
null makes it null; so only items with the same fields are loaded by the same statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from regente.contracts.writer import Target
from regente.services.writer.catalogue import Table
from regente.services.writer.copy_text import NulInText, copy_lines, json_text, plain_text
from regente.services.writer.json_rows import Unreadable

DUPLICATE = "duplicate key: an earlier row of the source has the same {key}"


@dataclass(frozen=True, slots=True)
class Failed:
    index: int
    data: str
    """JSON text."""
    error: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows with the same fields, as lines for COPY."""

    columns: tuple[str, ...]
    indexes: list[int]
    items: list[dict[str, Any]]
    lines: list[str]


@dataclass(frozen=True, slots=True)
class Batch:
    first_index: int
    size: int
    shapes: list[Shape]
    failed: list[Failed] = field(default_factory=list)


def make_batch(first_index: int, rows: Sequence[Any], target: Target, table: Table) -> Batch:
    return _uniform(first_index, rows, target, table) or _sorted_out(
        first_index, rows, target, table
    )


def _uniform(first_index: int, rows: Sequence[Any], target: Target, table: Table) -> Batch | None:
    """The usual batch, without a look at each row: the same fields in all of them, every key there
    and no two alike."""
    if (
        set(map(type, rows)) != {dict}
        or len(set(map(tuple, rows))) != 1
        or target.conflict_key not in rows[0]
    ):
        return None
    keys = [row[target.conflict_key] for row in rows]
    if set(map(type, keys)) != {str} or len(set(keys)) != len(keys):
        return None
    try:
        shape = _shape(first_index, range(len(rows)), list(rows), table)
    except NulInText:
        return None
    return Batch(first_index, len(rows), [shape])


def _sorted_out(first_index: int, rows: Sequence[Any], target: Target, table: Table) -> Batch:
    key = target.conflict_key
    failed = [
        _refused(first_index + place, row, key)
        for place, row in enumerate(rows)
        if type(row) is not dict or row.get(key) is None
    ]
    bad = {one.index - first_index for one in failed}
    good = [place for place in range(len(rows)) if place not in bad]
    keys = [plain_text(rows[place][key]) for place in good]
    if len(set(keys)) != len(keys):
        good = (
            _last_of_each(good, keys)
            if target.operation == "upsert"
            else _first_of_each(good, keys)
        )
        if target.operation == "insert":
            failed += _duplicates(first_index, rows, set(range(len(rows))) - bad - set(good), key)
    shapes = [
        shape
        for places in _by_fields(rows, good)
        for shape in _shapes(first_index, places, rows, table, failed)
    ]
    return Batch(first_index, len(rows), shapes, failed)


def _refused(index: int, row: Any, key: str) -> Failed:
    if isinstance(row, Unreadable):
        return Failed(index, json_text(row.text), row.error)
    if not isinstance(row, dict):
        return Failed(index, json_text(row), f"a row is an object, not {_kind(row)}")
    return Failed(
        index, json_text(row), f"{key!r} is null" if key in row else f"the row has no {key!r}"
    )


def _kind(row: Any) -> str:
    kinds = {list: "an array", str: "a text", bool: "a boolean", type(None): "null"}
    return kinds.get(type(row), "a number")


def _last_of_each(places: list[int], keys: list[str]) -> list[int]:
    return sorted(dict(zip(keys, places, strict=True)).values())


def _first_of_each(places: list[int], keys: list[str]) -> list[int]:
    return sorted(dict(zip(reversed(keys), reversed(places), strict=True)).values())


def _duplicates(
    first_index: int, rows: Sequence[Any], places: set[int], key: str
) -> Iterator[Failed]:
    for place in sorted(places):
        yield Failed(first_index + place, json_text(rows[place]), DUPLICATE.format(key=repr(key)))


def _by_fields(rows: Sequence[Any], places: list[int]) -> list[list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    for place in places:
        found.setdefault(tuple(rows[place]), []).append(place)
    return list(found.values())


def _shapes(
    first_index: int, places: list[int], rows: Sequence[Any], table: Table, failed: list[Failed]
) -> Iterator[Shape]:
    """One, unless a text in it cannot be stored: then one without the guilty rows."""
    try:
        yield _shape(first_index, places, [rows[place] for place in places], table)
        return
    except NulInText as error:
        message = str(error)
    clean = [place for place in places if not _has_nul(rows[place])]
    failed += (
        Failed(first_index + place, json_text(rows[place]), message)
        for place in sorted({*places} - {*clean})
    )
    if clean:
        yield _shape(first_index, clean, [rows[place] for place in clean], table)


def _has_nul(row: dict[str, Any]) -> bool:
    return "\\u0000" in json_text(row)


def _shape(
    first_index: int, places: Sequence[int], items: list[dict[str, Any]], table: Table
) -> Shape:
    names = tuple(items[0])
    values: dict[str, Sequence[Any]] = dict(
        zip(names, zip(*map(dict.values, items), strict=True), strict=True)
    )
    unknown = [name for name in names if name not in table.columns]
    if unknown and table.extra is not None:
        values[table.extra] = [_with_extra(item, unknown, table.extra) for item in items]
    columns = tuple(name for name in values if name in table.columns)
    lines = copy_lines([(table.columns[name], values[name]) for name in columns])
    return Shape(columns, [first_index + place for place in places], items, lines)


def _with_extra(item: dict[str, Any], unknown: list[str], extra: str) -> dict[str, Any]:
    """The fields without a column, beside what the item itself has for the column
    that keeps them."""
    own = item.get(extra)
    kept = own if isinstance(own, dict) else {} if own is None else {extra: own}
    return kept | {name: item[name] for name in unknown}
