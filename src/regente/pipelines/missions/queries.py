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
    """A short transaction of the task. The server ends it when the process freezes in it or is cut
    off, so that its locks do not stay in the way of the process that takes over."""
    async with task.transaction() as connection:
        await QUERIES.execute(connection, "be_brief")
        yield connection
