"""Named SQL: the blocks of `.sql` files, run by name on a connection or on a database.

A block begins with a line `-- name: NAME` and ends where the next one begins. A line
`-- include: NAME` is replaced by the block of that name, so that a list and its count share a
filter.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from psycopg import AsyncConnection, AsyncCursor, sql
from psycopg.rows import dict_row

Row = dict[str, Any]
Statement = str | sql.Composed
T = TypeVar("T")

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_INCLUDE = re.compile(r"^\s*-- include: (\w+)\s*$", re.MULTILINE)


class LendsConnections(Protocol):
    async def run(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        """The result of `work`, called with a connection."""
        ...


Source = AsyncConnection[Any] | LendsConnections


class Queries:
    """The named blocks of one file, or of the `.sql` files of one folder; read at the first use.

    A database may run a statement twice if the first answer was lost. `prepare=False` is for
    queries with optional filters, for which one generic plan would be slow.
    """

    def __init__(self, path: Path, *, prepare: bool | None = None) -> None:
        self._path = path
        self._prepare = prepare

    @cached_property
    def statements(self) -> dict[str, str]:
        return _load(sorted(self._path.glob("*.sql")) if self._path.is_dir() else [self._path])

    def __getitem__(self, name: str) -> str:
        return self.statements[name]

    def format(self, name: str, /, **parts: sql.Composable) -> sql.Composed:
        """A statement with identifiers or literals in place of `{name}`."""
        return sql.SQL(self[name]).format(**parts)

    async def fetch_all(self, source: Source, query: Statement, /, **params: Any) -> list[Row]:
        return await self._run(source, query, params, _rows)

    async def fetch_one(self, source: Source, query: Statement, /, **params: Any) -> Row | None:
        """The first row, if there is one."""
        return await self._run(source, query, params, _row)

    async def execute(self, source: Source, query: Statement, /, **params: Any) -> int:
        """The number of rows that the statement changed or returned."""
        return await self._run(source, query, params, _count)

    async def _run(
        self,
        source: Source,
        query: Statement,
        params: dict[str, Any],
        result: Callable[[AsyncCursor[Row]], Awaitable[T]],
    ) -> T:
        statement = self[query] if isinstance(query, str) else query

        async def work(connection: AsyncConnection[Any]) -> T:
            async with connection.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(statement, params, prepare=self._prepare)
                return await result(cursor)

        return await (work(source) if isinstance(source, AsyncConnection) else source.run(work))


async def _rows(cursor: AsyncCursor[Row]) -> list[Row]:
    return await cursor.fetchall()


async def _row(cursor: AsyncCursor[Row]) -> Row | None:
    return await cursor.fetchone()


async def _count(cursor: AsyncCursor[Row]) -> int:
    return cursor.rowcount


def _load(paths: Iterable[Path]) -> dict[str, str]:
    """The blocks by name. Text before the first name is ignored; duplicate names are refused."""
    found: dict[str, str] = {}
    for path in paths:
        parts = _NAME.split(path.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"{path.name} defines the query {name!r} a second time")
            found[name] = body.strip().rstrip(";")
    return {
        name: _INCLUDE.sub(lambda include: found[include[1]], body) for name, body in found.items()
    }
