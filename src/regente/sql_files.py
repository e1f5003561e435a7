"""Named SQL blocks in `.sql` files. A block begins with a line `-- name: NAME` and ends where the
next one begins."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load_queries(*paths: Path) -> dict[str, str]:
    """The named blocks of these files; text before a file's first name is prose. A name that two
    share is a mistake."""
    found: dict[str, str] = {}
    for path in paths:
        parts = _NAME.split(path.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"{path.name} defines the query {name!r} a second time")
            found[name] = body.strip().rstrip(";")
    return found
