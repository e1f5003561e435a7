"""The missions' statements, and the transactions that they are run in."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from regente.engine.database import TaskConnection
from regente.engine.task import Task
from regente.queries import Queries

QUERIES = Queries(Path(__file__).with_name("missions.sql"))
LISTS = Queries(Path(__file__).with_name("lists.sql"), prepare=False)
ADDITIONS = Queries(Path(__file__).with_name("additions.sql"), prepare=False)
REPORTS = Queries(Path(__file__).with_name("reports.sql"), prepare=False)


@contextlib.asynccontextmanager
async def brief_transaction(task: Task[Any]) -> AsyncIterator[TaskConnection]:
    """A short transaction of the task. The server ends it when the process freezes in it or is cut
    off, so that its locks do not stay in the way of the process that takes over."""
    async with task.transaction() as connection:
        await QUERIES.execute(connection, "be_brief")
        yield connection


async def log_for_mission(
    connection: AsyncConnection[Any], mission_id: int, attempt: int, event: str, /, **details: Any
) -> None:
    """Add an event to a mission from another task: the driver that assigns it."""
    await QUERIES.execute(
        connection,
        "log_for_mission",
        mission_id=mission_id,
        attempt=attempt,
        event=event,
        details=json.dumps(details),
    )
