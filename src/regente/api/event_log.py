"""Reads the event log in pages, for lists and exports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from regente.api.additions import EventScope
from regente.api.models.tasks import EventFilter
from regente.api.queries import QUERIES
from regente.api.state import Api
from regente.engine.models import Event
from regente.queries import Row
from regente.redaction import redacted

PAGE = 500
AUDIT = ["operator_action"]


async def page(
    api: Api, chosen: EventFilter, cursor: str | None, limit: int
) -> tuple[list[Event], str | None]:
    """A page of events, newest first, and the cursor of the next page."""
    rows = await QUERIES.fetch_all(
        api.database, "list_events", **await _params(api, chosen), **_after(cursor), limit=limit + 1
    )
    more = rows[limit - 1]["position"] if len(rows) > limit else None
    return [event_of(row) for row in rows[:limit]], more


async def every(api: Api, chosen: EventFilter, most: int) -> AsyncIterator[Event]:
    params = await _params(api, chosen)
    cursor: str | None = None
    given = 0
    while given < most:
        rows = await QUERIES.fetch_all(
            api.database, "list_events", **params, **_after(cursor), limit=min(PAGE, most - given)
        )
        for row in rows:
            yield event_of(row)
        if len(rows) < PAGE:
            return
        given, cursor = given + len(rows), rows[-1]["position"]


async def with_first_fetched(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """The same events; the first is fetched now, so that bad filters fail before the response."""
    first = await anext(events, None)

    async def all_events() -> AsyncIterator[Event]:
        if first is not None:
            yield first
            async for event in events:
                yield event

    return all_events()


def event_of(row: Row) -> Event:
    return Event(**{**row, "details": redacted(row["details"])})


def _after(cursor: str | None) -> dict[str, Any]:
    txid, _, event_id = (cursor or "").partition("-")
    return {"before_txid": txid or None, "before_id": int(event_id) if event_id else 0}


async def _params(api: Api, chosen: EventFilter) -> dict[str, Any]:
    scope = await _scope(api, chosen)
    fields = ("mission_id", "task_id", "batch_id", "types", "worker_id", "since", "until")
    # `only_operators` is a constant in the statement, so that the partial index serves it.
    return {name: getattr(chosen, name) for name in fields} | {
        "among": scope and list(scope.tasks),
        "sessions": list(scope.sessions) if scope else [],
        "only_operators": chosen.types == AUDIT,
    }


async def _scope(api: Api, chosen: EventFilter) -> EventScope | None:
    """What the filter by mission or worker selects; None without one."""
    if chosen.mission_id is None and chosen.worker_id is None:
        return None
    for one in api.additions:
        found = await one.event_scope(api.database, chosen.mission_id, chosen.worker_id)
        if found is not None:
            return found
    return EventScope(tasks=[] if chosen.mission_id is None else [chosen.mission_id])
