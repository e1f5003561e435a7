"""The named statements of the missions, and the transactions that they run in."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from regente.engine.database import TaskConnection
from regente.engine.task import Task
from regente.pipelines.statements import Row, Statements

_STATEMENTS = Statements(Path(__file__).with_name("missions.sql"))
rows_on, ask = _STATEMENTS.on, _STATEMENTS.ask


async def one_on(connection: AsyncConnection[Any], name: str, **params: Any) -> Row | None:
    rows = await rows_on(connection, name, **params)
    return rows[0] if rows else None


@contextlib.asynccontextmanager
async def brief_transaction(task: Task[Any]) -> AsyncIterator[TaskConnection]:
    """A transaction of the task, without calls to the outside. The server ends it after 5 s of
    silence, so that a process that is frozen or cut off in it does not keep its locks."""
    async with task.transaction() as connection:
        await rows_on(connection, "be_brief")
        yield connection


async def log_for_mission(
    connection: AsyncConnection[Any], mission_id: int, attempt: int, event: str, /, **details: Any
) -> None:
    """Add an event to a mission from another task: the driver that assigns it."""
    await rows_on(
        connection,
        "log_for_mission",
        mission_id=mission_id,
        attempt=attempt,
        event=event,
        details=json.dumps(details),
    )
