"""How long finished tasks and their events are kept: the setting in the database, or the process's
default. Pipelines with `keep` have no default: their tasks are kept until a time is set."""

from __future__ import annotations

import json
import math
from typing import Any

from regente.engine.database import Database, fetch_on
from regente.engine.errors import InvalidInput
from regente.engine.log import current_request

DAY_SECONDS = 86_400.0
RETENTION = "retention_days"
MIN_DAYS = 1 / 24
"""The sweep runs once an hour, so a shorter time would have no effect."""
MAX_DAYS = 36_500.0
AUDIT_DAYS = 5 * 365.0
MIN_AUDIT_DAYS = 365.0
"""What operators did is kept for so long in any case."""


class RetentionTime:
    """`was_set`: a person set the process's default."""

    def __init__(self, database: Database, default_days: float, *, was_set: bool = False) -> None:
        self._database = database
        self._default_days = default_days
        self._was_set = was_set

    async def days(self) -> float:
        return (await self.days_and_source())[0]

    async def days_and_source(self) -> tuple[float, bool]:
        """The time, and whether a person set it."""
        rows = await self._database.fetch(RETENTION)
        return (checked_days(rows[0][0]), True) if rows else (self._default_days, self._was_set)

    async def set(self, value: Any, *, by: str) -> float:
        days = checked_days(value)
        request = current_request.get()
        who = {"by": by} | ({"request_id": request} if request else {})
        params = {
            "days": json.dumps(days),
            "default_days": self._default_days,
            "who": json.dumps(who),
        }
        async with self._database.transaction() as connection:
            await fetch_on(connection, "put_retention_days", params)
        return days


def checked_days(value: Any) -> float:
    """The value as days; `InvalidInput` when it is out of range."""
    try:
        days = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        days = math.nan
    if not MIN_DAYS <= days <= MAX_DAYS:
        raise InvalidInput(
            f"{RETENTION} is a number of days from 0.0417 (an hour) to {MAX_DAYS:g}, not {value!r}"
        )
    return days
