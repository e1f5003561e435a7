"""How the rounds' statements are run: on a connection at hand, or on one of the engine's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from regente.engine.database import Database
from regente.sql_files import load_queries

QUERIES = load_queries(Path(__file__).with_name("rounds.sql"))

Row = dict[str, Any]


async def rows_on(connection: AsyncConnection[Any], name: str, **params: Any) -> list[Row]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(QUERIES[name], params)
        return list(await cursor.fetchall()) if cursor.description is not None else []


async def one_on(connection: AsyncConnection[Any], name: str, **params: Any) -> Row | None:
    rows = await rows_on(connection, name, **params)
    return rows[0] if rows else None


async def ask(database: Database, name: str, **params: Any) -> list[Row]:
    """One statement; it may be sent twice when the first answer got lost."""
    return await database.ask(QUERIES[name], params)
