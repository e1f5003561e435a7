"""The writer's own SQL."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from regente.sql_files import load_queries

_FOLDER = Path(__file__).parent


@cache
def _queries() -> dict[str, str]:
    return load_queries(*sorted(_FOLDER.glob("*.sql")))


def query(name: str) -> str:
    return _queries()[name]
