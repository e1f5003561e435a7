"""The settings of the missions that may be changed at run time (8.1)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from psycopg import AsyncConnection

from regente.engine.database import Database
from regente.engine.errors import InvalidInput
from regente.pipelines.missions.queries import QUERIES
from regente.queries import Row

LIMITS = {"session_limit": (1, 1000), "max_retries": (0, 100)}


@dataclass(frozen=True, slots=True)
class MissionSettings:
    session_limit: int = 5
    max_retries: int = 2
    auto_start: bool = True


DEFAULTS = MissionSettings()


async def read_settings(database: Database) -> MissionSettings:
    return _settings(await QUERIES.fetch_all(database, "settings", keys=list(asdict(DEFAULTS))))


async def read_settings_on(connection: AsyncConnection[Any]) -> MissionSettings:
    """Read on the connection of a transaction that is open."""
    return _settings(await QUERIES.fetch_all(connection, "settings", keys=list(asdict(DEFAULTS))))


def _settings(rows: list[Row]) -> MissionSettings:
    return MissionSettings(**{row["key"]: row["value"] for row in rows})


def checked_setting(key: str, value: Any) -> Any:
    """The value converted to the setting's type; `InvalidInput` when it is not valid."""
    if key not in asdict(DEFAULTS):
        raise InvalidInput(f"there is no setting {key!r}; known: {', '.join(asdict(DEFAULTS))}")
    if key == "auto_start":
        if isinstance(value, str) and value.lower() in ("true", "false", "on", "off"):
            return value.lower() in ("true", "on")
        if not isinstance(value, bool):
            raise InvalidInput("auto_start is true or false")
        return value
    low, high = LIMITS[key]
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{key} is a whole number from {low} to {high}, not {value!r}") from None
    if (
        not low <= number <= high
        or isinstance(value, bool)
        or (isinstance(value, float) and value != number)
    ):
        raise InvalidInput(f"{key} is a whole number from {low} to {high}, not {value!r}")
    return number
