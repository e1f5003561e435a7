"""How a pipeline's named statements are run: on a connection at hand, or on one of the engine's
own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row

from regente.engine.database import Database
from regente.sql_files import load_queries

Row = dict[str, Any]


class Statements:
    def __init__(self, path: Path) -> None:
        self._queries = load_queries(path)

    def __getitem__(self, name: str) -> str:
        return self._queries[name]

    async def on(self, connection: AsyncConnection[Any], name: str, /, **params: Any) -> list[Row]:
        return await _rows(connection, self._queries[name], params)

    async def formatted_on(
        self,
        connection: AsyncConnection[Any],
        name: str,
        parts: dict[str, sql.Composable],
        /,
        **params: Any,
    ) -> list[Row]:
        """A statement with identifiers or literals of the database's own in it, written `{so}`."""
        return await _rows(connection, sql.SQL(self._queries[name]).format(**parts), params)

    async def ask(self, database: Database, name: str, /, **params: Any) -> list[Row]:
        """One statement, alone in its transaction; it may be sent twice when the first answer got
        lost."""
        return await database.ask(self._queries[name], params)


async def _rows(
    connection: AsyncConnection[Any], statement: Any, params: dict[str, Any]
) -> list[Row]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, params)
        return list(await cursor.fetchall()) if cursor.description is not None else []
