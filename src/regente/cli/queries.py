"""The command line's own queries, from `cli.sql`."""

from __future__ import annotations

from pathlib import Path

from regente.app import Regente
from regente.engine.models import Event
from regente.queries import Queries, Row

_QUERIES = Queries(Path(__file__).with_name("cli.sql"))


async def dead_by_code(app: Regente, *, pipeline: str | None, code: str | None) -> list[Row]:
    return await _QUERIES.fetch_all(app.database, "dead_by_code", pipeline=pipeline, code=code)


async def recent_events(app: Regente, *, task_id: int | None, limit: int) -> list[Event]:
    rows = await _QUERIES.fetch_all(app.database, "recent_events", task_id=task_id, limit=limit)
    return [Event(**row) for row in rows]


async def feed_end(app: Regente) -> str:
    """The position of the newest event."""
    row = await _QUERIES.fetch_one(app.database, "feed_end")
    return row["position"] if row else "0-0"
