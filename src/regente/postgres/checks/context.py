"""The context of every check, with its connection, and the findings that checks return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg.rows import DictRow, dict_row

from regente.engine.migrations import ENGINE, Component
from regente.queries import Queries, Row

Level = Literal["ok", "info", "warning", "error"]

_QUERIES = Queries(Path(__file__).parents[1] / "doctor.sql")
_CONNECT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    level: Level
    summary: str
    advice: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckContext:
    database_url: str
    connection: psycopg.AsyncConnection[DictRow]
    components: Sequence[Component] = (ENGINE,)

    async def rows(self, query: str) -> list[Row]:
        return await fetch(self.connection, query)

    async def row(self, query: str) -> Row:
        return (await self.rows(query))[0]


Check = Callable[[CheckContext], Awaitable[list[Finding]]]


async def connect(database_url: str) -> psycopg.AsyncConnection[DictRow]:
    """A connection that works behind a transaction pooler: autocommit, no prepared statements."""
    return await psycopg.AsyncConnection.connect(
        database_url,
        autocommit=True,
        prepare_threshold=None,
        row_factory=dict_row,
        connect_timeout=_CONNECT_SECONDS,
        application_name="regente doctor",
    )


async def fetch(connection: psycopg.AsyncConnection[DictRow], query: str) -> list[Row]:
    return await _QUERIES.fetch_all(connection, query)
