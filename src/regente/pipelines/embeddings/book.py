"""How the embeddings' statements are run: on a connection at hand, or on one of the engine's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row

from regente.engine.database import Database
from regente.sql_files import load_queries

QUERIES = load_queries(Path(__file__).with_name("embeddings.sql"))

Row = dict[str, Any]


async def rows_on(connection: AsyncConnection[Any], name: str, **params: Any) -> list[Row]:
    return await _rows(connection, QUERIES[name], params)


async def formatted_on(
    connection: AsyncConnection[Any], name: str, parts: dict[str, sql.Composable], **params: Any
) -> list[Row]:
    """A statement with identifiers or literals of the database's own in it, written `{so}`."""
    statement = sql.SQL(QUERIES[name]).format(**parts)
    return await _rows(connection, statement, params)


async def ask(database: Database, name: str, **params: Any) -> list[Row]:
    """One statement; it may be sent twice when the first answer got lost."""
    return await database.ask(QUERIES[name], params)


async def _rows(connection: AsyncConnection[Any], statement: Any, params: dict[str, Any]) -> list[Row]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, params)
        return list(await cursor.fetchall()) if cursor.description is not None else []
