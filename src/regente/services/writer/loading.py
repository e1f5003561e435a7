"""Loads a batch in the caller's transaction: COPY into a staging table, then upsert or insert.

When PostgreSQL refuses a batch because of a row, it is split until the bad rows are isolated;
all others are stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from regente.contracts.writer import Target
from regente.services.writer.batch import Batch, Failed, Shape
from regente.services.writer.catalogue import Table
from regente.services.writer.copy_text import json_text
from regente.services.writer.failures import first_line, is_row_fault
from regente.services.writer.queries import QUERIES

# COPY names the line that failed. Using it is fast while few rows are bad; halving is when most
# are.
_HINTS_PER_SHAPE = 16
# Failed tries leave dead rows in the staging table; it is recreated after this many.
_TRIES_PER_STAGING = 200
_LINE = re.compile(r"\d+")


class Loader:
    def __init__(self, target: Target, table: Table, on_wait: Callable[[], object]) -> None:
        """`on_wait` is called before a slow statement, during which the loop is free."""
        self._target = target
        self._table = table
        self._on_wait = on_wait
        self._tries = 0

    async def load(self, connection: AsyncConnection[Any], batch: Batch) -> list[Failed]:
        """Store the batch and return the rows that are refused, in order."""
        failed = list(batch.failed)
        self._tries = 0
        for shape in batch.shapes:
            failed += await self._load_shape(connection, shape)
        return sorted(failed, key=lambda one: one.index)

    async def _load_shape(self, connection: AsyncConnection[Any], shape: Shape) -> list[Failed]:
        failed: list[Failed] = []
        names = self._names(shape)
        pending, hints, staged_until = [(0, len(shape.lines))], _HINTS_PER_SHAPE, self._tries
        while pending:
            start, end = pending.pop()
            if self._tries >= staged_until:
                await self._make_staging(connection, names)
                staged_until = self._tries + _TRIES_PER_STAGING
            self._tries += 1
            try:
                async with connection.transaction():
                    failed += await self._store(connection, names, shape, start, end)
            except psycopg.Error as error:
                if not is_row_fault(error):
                    raise
                if end - start == 1:
                    failed.append(_failed(shape, start, first_line(error)))
                    continue
                hint = _failed_line(error) if hints else None
                hints -= hint is not None
                pending += reversed(_cut(start, end, hint))
            else:
                if pending:
                    await connection.execute(QUERIES["empty_staging"])
        return failed

    async def _make_staging(
        self, connection: AsyncConnection[Any], names: dict[str, sql.Composable]
    ) -> None:
        if self._tries:
            await connection.execute(QUERIES["drop_staging"])
        await connection.execute(QUERIES.format("make_staging", **names))

    async def _store(
        self,
        connection: AsyncConnection[Any],
        names: dict[str, sql.Composable],
        shape: Shape,
        start: int,
        end: int,
    ) -> list[Failed]:
        if self._target.operation == "insert":
            numbered = [f"{shape.lines[place]}\t{place}" for place in range(start, end)]
            await self._copy(connection, QUERIES.format("copy_staging_numbered", **names), numbered)
            return await self._insert(connection, names, shape, end - start)
        await self._copy(
            connection, QUERIES.format("copy_staging", **names), shape.lines[start:end]
        )
        self._on_wait()
        await connection.execute(QUERIES.format("upsert", **names))
        return []

    async def _copy(
        self, connection: AsyncConnection[Any], statement: sql.Composed, lines: list[str]
    ) -> None:
        text = "\n".join(lines) + "\n"
        async with connection.cursor() as cursor, cursor.copy(statement) as copy:
            await copy.write(text.encode())

    async def _insert(
        self,
        connection: AsyncConnection[Any],
        names: dict[str, sql.Composable],
        shape: Shape,
        count: int,
    ) -> list[Failed]:
        self._on_wait()
        row = await (await connection.execute(QUERIES.format("insert", **names))).fetchone()
        assert row is not None
        stored, duplicates = row
        if stored + len(duplicates) != count:
            # Two of these rows have one key in two spellings: alone, the second one is a plain
            # duplicate.
            raise psycopg.errors.CardinalityViolation("rows of one batch have the same key")
        key = self._target.conflict_key
        message = (
            f"duplicate key: {self._target.schema_}.{self._target.table} has a row with the "
            f"same {key!r}"
        )
        return [_failed(shape, position, message) for position in sorted(duplicates)]

    def _names(self, shape: Shape) -> dict[str, sql.Composable]:
        touched = [name for name in self._table.touched if name not in shape.columns]
        assignments = [_assignment("{column} = EXCLUDED.{column}", name) for name in shape.columns]
        assignments += [_assignment("{column} = DEFAULT", name) for name in touched]
        return {
            "target": self._table.name,
            "columns": sql.SQL(", ").join(map(sql.Identifier, shape.columns)),
            "key": sql.Identifier(self._target.conflict_key),
            "assignments": sql.SQL(", ").join(assignments),
        }


def _assignment(template: str, column: str) -> sql.Composed:
    return sql.SQL(template).format(column=sql.Identifier(column))


def _failed(shape: Shape, position: int, error: str) -> Failed:
    return Failed(shape.indexes[position], json_text(shape.items[position]), error)


def _failed_line(error: psycopg.Error) -> int | None:
    """Line number in the error's context: a hint, since the server's language is unknown."""
    found = _LINE.search(error.diag.context or "")
    return int(found.group()) - 1 if found else None


def _cut(start: int, end: int, hint: int | None) -> list[tuple[int, int]]:
    if hint is None or not 0 <= hint < end - start:
        middle = (start + end) // 2
        return [(start, middle), (middle, end)]
    bad = start + hint
    parts = [(start, bad), (bad, bad + 1), (bad + 1, end)]
    return [(first, last) for first, last in parts if first < last]
