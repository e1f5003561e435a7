"""How the API asks the database: the named blocks in `sql/`, each in a transaction of its own with
a limit on its time.

A line `-- include: NAME` in a block stands for the block of that name, so that a list and its count
share one filter.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from psycopg.rows import dict_row

from regente.engine.database import Database
from regente.sql_files import load_queries

Row = dict[str, Any]

_INCLUDE = re.compile(r"^\s*-- include: (\w+)\s*$", re.MULTILINE)


def _with_includes() -> dict[str, str]:
    blocks = load_queries(*sorted((Path(__file__).parent / "sql").glob("*.sql")))
    return {
        name: _INCLUDE.sub(lambda found: blocks[found[1]], body) for name, body in blocks.items()
    }


QUERIES = _with_includes()


class Book:
    def __init__(self, database: Database, statement_seconds: float = 10.0) -> None:
        self.database = database
        self._milliseconds = str(int(statement_seconds * 1000))

    async def rows(self, name: str, /, **params: Any) -> list[Row]:
        async with (
            self.database.transaction() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            # Filters come in every combination: a plan that serves any of them serves none.
            await cursor.execute(QUERIES["with_limits"], {"milliseconds": self._milliseconds})
            await cursor.execute(QUERIES[name], params, prepare=False)
            return list(await cursor.fetchall()) if cursor.description is not None else []

    async def row(self, name: str, /, **params: Any) -> Row | None:
        found = await self.rows(name, **params)
        return found[0] if found else None
