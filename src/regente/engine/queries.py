"""The engine's SQL: every named block in `engine/sql`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from regente.sql_files import load_queries

_SQL_FOLDER = Path(__file__).parent / "sql"


@cache
def engine_queries() -> dict[str, str]:
    return load_queries(*sorted(_SQL_FOLDER.glob("*.sql")))


def query(name: str) -> str:
    return engine_queries()[name]
