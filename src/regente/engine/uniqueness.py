"""Keys of tasks: for how long a key belongs to one task, and what a second one with it gets."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Literal, NamedTuple

from regente.engine.errors import InvalidInput

Unique = Literal["ever", "until_done", "until_started"] | float | timedelta
OnConflict = Literal["return", "replace", "error"]

MAX_UNIQUE_SECONDS = 100 * 365 * 86_400.0
_UNTIL = ("ever", "until_done", "until_started")
_ON_CONFLICT = ("return", "replace", "error")


class Enqueued(int):
    """The id of a task, as the number that it is. `created` is false when the key belonged to a
    task that was there, whose id this is."""

    created: bool = True

    @classmethod
    def of(cls, task_id: int, created: bool) -> Enqueued:
        made = cls(task_id)
        if not created:
            made.created = False
        return made

    @property
    def id(self) -> int:
        return int(self)

    def __repr__(self) -> str:
        return f"Enqueued(id={int(self)}, created={self.created})"

    def __str__(self) -> str:
        return str(int(self))


class Uniqueness(NamedTuple):
    """`unique` as `regente.store_unique` takes it."""

    unique: str
    on_conflict: str


FOR_EVER = Uniqueness("ever", "return")


def checked_uniqueness(key: str | None, unique: Unique, on_conflict: OnConflict) -> Uniqueness:
    """`InvalidInput` for what `regente.check_uniqueness` would refuse."""
    if unique == "ever" and on_conflict == "return":
        return FOR_EVER
    if on_conflict not in _ON_CONFLICT:
        raise InvalidInput(f"on_conflict is {', '.join(_ON_CONFLICT)}, not {on_conflict!r}")
    checked = Uniqueness(_checked_unique(unique), on_conflict)
    if key is None and checked != FOR_EVER:
        raise InvalidInput("unique and on_conflict need a key")
    return checked


def _checked_unique(unique: object) -> str:
    if isinstance(unique, str) and unique in _UNTIL:
        return unique
    seconds = unique.total_seconds() if isinstance(unique, timedelta) else unique
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidInput(f"unique is {', '.join(_UNTIL)} or a time, not {unique!r}")
    if not (math.isfinite(seconds) and 0 < seconds <= MAX_UNIQUE_SECONDS):
        raise InvalidInput(f"unique is a time above 0 and up to 100 years, not {unique!r}")
    return f"{seconds:f} seconds"
