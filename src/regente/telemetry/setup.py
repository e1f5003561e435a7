"""Decides whether traces are on, and where they go."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from regente.engine.database import Database
from regente.engine.errors import InvalidInput

if TYPE_CHECKING:
    from regente.telemetry.observer import Traces

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
OFF = ("", "0", "off", "false", "no")
ON = ("1", "on", "true", "yes")


async def traces(database: Database, wish: str | None) -> Traces | None:
    """Return Traces, or None when they are off. `wish` is `on`, `off` or a URL."""
    endpoint = _endpoint(wish)
    if endpoint is None:
        return None
    try:
        from regente.telemetry.observer import Traces
    except ModuleNotFoundError as error:
        raise InvalidInput(f"for traces install regente[otel]: {error.name} is missing") from None
    (row,) = await database.fetch("installation")
    return Traces(row[0], endpoint)


def _endpoint(wish: str | None) -> str | None:
    """Return a URL, `""` for OpenTelemetry's own default, or None for off."""
    if wish is None:
        return "" if any(os.environ.get(name) for name in ENDPOINTS) else None
    word = wish.strip().lower()
    if word in OFF:
        return None
    if word in ON:
        return ""
    if not word.startswith(("http://", "https://")):
        raise InvalidInput(
            "REGENTE_OTEL is on, off or the URL of a collector, like http://localhost:4318"
        )
    return wish.strip().rstrip("/")
