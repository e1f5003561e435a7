"""Reads the target table from PostgreSQL's catalogue. Names from a request are only looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from regente.contracts.writer import Target
from regente.services.writer.copy_text import Kind
from regente.services.writer.failures import JobFailure, WriterCode
from regente.services.writer.queries import QUERIES

EXTRA_COLUMNS = ("raw", "extra")
TOUCHED_COLUMNS = ("last_seen_at", "updated_at")


@dataclass(frozen=True, slots=True)
class Table:
    name: sql.Identifier
    columns: dict[str, Kind]
    """The columns that can be written."""
    extra: str | None
    """The JSON column that keeps fields without a column of their own."""
    touched: tuple[str, ...]
    """Columns that an upsert sets to their default unless the row has a value."""


async def read_table(connection: AsyncConnection[Any], target: Target) -> Table:
    shown = f"{target.schema_}.{target.table}"
    found = await connection.execute(
        QUERIES["table_columns"], {"schema": target.schema_, "table": target.table}
    )
    rows = await found.fetchall()
    if not rows:
        raise JobFailure(WriterCode.SCHEMA, f"there is no table {shown}")
    columns = {name: _kind(type_name, category) for name, type_name, category, _ in rows}
    if target.conflict_key not in columns:
        raise JobFailure(
            WriterCode.SCHEMA,
            f"{shown} has no column {target.conflict_key!r} that can be written to",
        )
    parameters = {"schema": target.schema_, "table": target.table, "column": target.conflict_key}
    unique = await (await connection.execute(QUERIES["is_unique"], parameters)).fetchone()
    if unique is None:
        raise JobFailure(
            WriterCode.SCHEMA, f"{shown} has no unique constraint on {target.conflict_key!r}"
        )
    return Table(
        name=sql.Identifier(target.schema_, target.table),
        columns=columns,
        extra=next((name for name in EXTRA_COLUMNS if columns.get(name) is Kind.JSON), None),
        touched=tuple(
            name for name, _, _, has_default in rows if has_default and name in TOUCHED_COLUMNS
        ),
    )


def _kind(type_name: str, category: str) -> Kind:
    if type_name in ("json", "jsonb"):
        return Kind.JSON
    return Kind.ARRAY if category == "A" else Kind.PLAIN
