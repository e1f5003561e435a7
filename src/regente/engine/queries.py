"""The engine's SQL: every named block in `engine/sql`."""

from __future__ import annotations

from pathlib import Path

from regente.queries import Queries

_QUERIES = Queries(Path(__file__).with_name("sql"))


def engine_queries() -> dict[str, str]:
    return _QUERIES.statements


def query(name: str) -> str:
    return engine_queries()[name]
