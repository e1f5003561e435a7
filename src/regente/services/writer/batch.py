"""Prepares the rows of one batch: rejects non-rows and duplicates, and groups rows of one shape.

A missing field keeps the column's value (or default) and a null field sets NULL, so one statement
loads only items that have the same fields.
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
    """The item as JSON text."""
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
    return _uniform(first_index, rows, target, table) or _checked_rows(
        first_index, rows, target, table
    )


def _uniform(first_index: int, rows: Sequence[Any], target: Target, table: Table) -> Batch | None:
    """Return a batch of one shape without inspecting each row; None when the rows differ."""
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


def _checked_rows(first_index: int, rows: Sequence[Any], target: Target, table: Table) -> Batch:
    key = target.conflict_key
    failed = [
        _refused(first_index + position, row, key)
        for position, row in enumerate(rows)
        if type(row) is not dict or row.get(key) is None
    ]
    bad = {one.index - first_index for one in failed}
    good = [position for position in range(len(rows)) if position not in bad]
    keys = [plain_text(rows[position][key]) for position in good]
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
        for positions in _by_fields(rows, good)
        for shape in _shapes(first_index, positions, rows, table, failed)
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


def _last_of_each(positions: list[int], keys: list[str]) -> list[int]:
    return sorted(dict(zip(keys, positions, strict=True)).values())


def _first_of_each(positions: list[int], keys: list[str]) -> list[int]:
    return sorted(dict(zip(reversed(keys), reversed(positions), strict=True)).values())


def _duplicates(
    first_index: int, rows: Sequence[Any], positions: set[int], key: str
) -> Iterator[Failed]:
    for position in sorted(positions):
        yield Failed(
            first_index + position, json_text(rows[position]), DUPLICATE.format(key=repr(key))
        )


def _by_fields(rows: Sequence[Any], positions: list[int]) -> list[list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    for position in positions:
        found.setdefault(tuple(rows[position]), []).append(position)
    return list(found.values())


def _shapes(
    first_index: int, positions: list[int], rows: Sequence[Any], table: Table, failed: list[Failed]
) -> Iterator[Shape]:
    """Yield one shape, without rows whose text cannot be stored; those go to `failed`."""
    try:
        yield _shape(first_index, positions, [rows[position] for position in positions], table)
        return
    except NulInText as error:
        message = str(error)
    clean = [position for position in positions if not _has_nul(rows[position])]
    failed += (
        Failed(first_index + position, json_text(rows[position]), message)
        for position in sorted({*positions} - {*clean})
    )
    if clean:
        yield _shape(first_index, clean, [rows[position] for position in clean], table)


def _has_nul(row: dict[str, Any]) -> bool:
    return "\\u0000" in json_text(row)


def _shape(
    first_index: int, positions: Sequence[int], items: list[dict[str, Any]], table: Table
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
    return Shape(columns, [first_index + position for position in positions], items, lines)


def _with_extra(item: dict[str, Any], unknown: list[str], extra: str) -> dict[str, Any]:
    """Return the fields without a column, merged into the item's own value of `extra`."""
    own = item.get(extra)
    kept = own if isinstance(own, dict) else {} if own is None else {extra: own}
    return kept | {name: item[name] for name in unknown}
