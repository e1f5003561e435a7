"""The command line's own questions (`cli.sql`), asked over the app's connections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regente.app import Regente
from regente.engine.models import Event
from regente.sql_files import load_queries

_QUERIES = load_queries(Path(__file__).with_name("cli.sql"))


async def dead_by_code(
    app: Regente, *, pipeline: str | None, code: str | None
) -> list[dict[str, Any]]:
    return await _rows(app, "dead_by_code", {"pipeline": pipeline, "code": code})


async def recent_events(app: Regente, *, task_id: int | None, limit: int) -> list[Event]:
    return [
        Event(**row)
        for row in await _rows(app, "recent_events", {"task_id": task_id, "limit": limit})
    ]


async def feed_end(app: Regente) -> str:
    """The position after everything that has happened so far."""
    rows = await _rows(app, "feed_end", {})
    return f"{rows[0]['txid']}-{rows[0]['id']}" if rows else "0-0"


async def _rows(app: Regente, name: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    return await app.database.ask(_QUERIES[name], params)
