"""The missions' statements, and the transactions that they are run in."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from regente.engine.database import TaskConnection
from regente.engine.task import Task
from regente.queries import Queries

QUERIES = Queries(Path(__file__).with_name("missions.sql"))
LISTS = Queries(Path(__file__).with_name("lists.sql"), prepare=False)


@contextlib.asynccontextmanager
async def brief_transaction(task: Task[Any]) -> AsyncIterator[TaskConnection]:
    """A transaction of the task that waits for nobody. A process that is frozen in it, or cut off,
    must not keep its locks from those who take over: the server ends it."""
    async with task.transaction() as connection:
        await QUERIES.execute(connection, "be_brief")
        yield connection
