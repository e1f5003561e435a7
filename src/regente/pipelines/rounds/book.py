"""The rounds' statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from regente.pipelines.statements import Row, Statements

_STATEMENTS = Statements(Path(__file__).with_name("rounds.sql"))
rows_on, ask = _STATEMENTS.on, _STATEMENTS.ask


async def one_on(connection: AsyncConnection[Any], name: str, **params: Any) -> Row | None:
    rows = await rows_on(connection, name, **params)
    return rows[0] if rows else None
