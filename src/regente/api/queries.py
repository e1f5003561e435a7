"""The API's queries, from `sql/`, each in its own transaction with a statement timeout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from psycopg import AsyncConnection

from regente.engine.database import Database, fetch_dicts_on
from regente.queries import Queries, Row

T = TypeVar("T")

QUERIES = Queries(Path(__file__).with_name("sql"), prepare=False)


class LimitedDatabase:
    """The database with a statement timeout and a custom plan for each statement."""

    def __init__(self, database: Database, statement_seconds: float = 10.0) -> None:
        self._database = database
        self._milliseconds = str(int(statement_seconds * 1000))

    async def run(self, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        async with self._database.transaction() as connection:
            await QUERIES.execute(connection, "with_limits", milliseconds=self._milliseconds)
            return await work(connection)

    async def fetch_dicts(self, name: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of one of the engine's queries."""
        return await self.run(lambda connection: fetch_dicts_on(connection, name, params or {}))
