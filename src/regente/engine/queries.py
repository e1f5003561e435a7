"""Loads named SQL blocks. A block begins with a line `-- name: NAME` and ends where the next one begins."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_SQL_FOLDER = Path(__file__).parent / "sql"


def load_queries(path: Path) -> dict[str, str]:
    """The named blocks of one `.sql` file; text before the first name is prose for the reader."""
    parts = _NAME.split(path.read_text(encoding="utf-8"))
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def engine_queries() -> dict[str, str]:
    """Every named block below `engine/sql`; a name that two files share is a mistake."""
    found: dict[str, str] = {}
    for path in sorted(_SQL_FOLDER.glob("*.sql")):
        for name, body in load_queries(path).items():
            if name in found:
                raise ValueError(f"{path.name} defines the query {name!r} a second time")
            found[name] = body
    return found


def query(name: str) -> str:
    return engine_queries()[name]
