"""How the missions' statements are run: on a connection at hand, or on one of the engine's own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from regente.engine.database import Database, TaskConnection
from regente.engine.task import Task
from regente.sql_files import load_queries

QUERIES = load_queries(Path(__file__).with_name("missions.sql"))

Row = dict[str, Any]


async def rows_on(connection: AsyncConnection[Any], name: str, **params: Any) -> list[Row]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(QUERIES[name], params)
        return list(await cursor.fetchall()) if cursor.description is not None else []


async def one_on(connection: AsyncConnection[Any], name: str, **params: Any) -> Row | None:
    rows = await rows_on(connection, name, **params)
    return rows[0] if rows else None


async def ask(database: Database, name: str, **params: Any) -> list[Row]:
    """One statement, and no more than one round trip; it may be sent twice when the first answer got lost."""
    return await database.ask(QUERIES[name], params)


@contextlib.asynccontextmanager
async def brief_transaction(task: Task[Any]) -> AsyncIterator[TaskConnection]:
    """A transaction of the task that waits for nobody. A process that is frozen in it, or cut off, must not keep its locks from
    those who take over: the server ends it."""
    async with task.transaction() as connection:
        await connection.execute(QUERIES["be_brief"])
        yield connection


async def log_for_mission(
    connection: AsyncConnection[Any], mission_id: int, attempt: int, event: str, /, **details: Any
) -> None:
    """An event of a mission that somebody else writes: the driver of the worker that it is given to."""
    await rows_on(
        connection, "log_for_mission", mission_id=mission_id, attempt=attempt, event=event, details=json.dumps(details)
    )
