"""Hides fields with secret names in arguments, results and event details of tasks."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "•••"
_SECRET_NAME = re.compile(
    r"(^|[_\-.])(api_?key|password|passwd|secret|token|authorization|cookie|credentials?|private_?key)s?$",
    re.IGNORECASE,
)


def redacted(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: HIDDEN if _is_secret(name, held) else redacted(held)
            for name, held in value.items()
        }
    if isinstance(value, list):
        return [redacted(one) for one in value]
    return value


def _is_secret(name: str, held: Any) -> bool:
    return (
        isinstance(held, str | int | float)
        and not isinstance(held, bool)
        and _SECRET_NAME.search(name) is not None
    )
