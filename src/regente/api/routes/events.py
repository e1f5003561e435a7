"""`/api/events`: the event log, filtered by mission, type, worker and time, and its exports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import StreamingResponse

from regente.api import event_log
from regente.api.access.roles import Viewer
from regente.api.csv_text import csv_line
from regente.api.models.basics import Page
from regente.api.models.tasks import EventFilter, EventQuery
from regente.api.resource import resource
from regente.api.state import ApiDep
from regente.engine.models import Event

routes = resource("/api/events", "events")

COLUMNS = tuple(name for name, field in Event.model_fields.items() if not field.exclude)


class Export(EventFilter):
    format: Literal["csv", "json"] = Field("csv", description="Newest first in both.")


@routes.get("", summary="Query events, newest first")
async def list_events(
    query: Annotated[EventQuery, Query()], api: ApiDep, who: Viewer
) -> Page[Event]:
    """The audit log is `types=operator_action`."""
    found, more = await event_log.page(api, query, _cursor(query.cursor), query.limit)
    return Page(items=found, next=more)


@routes.get(
    "/export",
    summary="Export events as CSV or JSON",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/csv": {}, "application/json": {}},
            "description": "At most 100,000 events.",
        }
    },
)
async def export(query: Annotated[Export, Query()], api: ApiDep, who: Viewer) -> StreamingResponse:
    """In CSV, a cell that a spreadsheet would read as a formula begins with an apostrophe."""
    chosen = EventFilter(**query.model_dump(exclude={"format"}))
    is_csv = query.format == "csv"
    headers = {"content-disposition": f'attachment; filename="events.{query.format}"'}
    events = await event_log.with_first_fetched(
        event_log.every(api, chosen, api.config.export_rows)
    )
    text = _as_csv(events) if is_csv else _as_json(events)
    return StreamingResponse(
        text,
        headers=headers,
        media_type="text/csv; charset=utf-8" if is_csv else "application/json",
    )


async def _as_csv(events: AsyncIterator[Event]) -> AsyncIterator[str]:
    yield csv_line(COLUMNS)
    async for event in events:
        yield csv_line(getattr(event, name) for name in COLUMNS)


async def _as_json(events: AsyncIterator[Event]) -> AsyncIterator[str]:
    start = "["
    async for event in events:
        yield start + event.model_dump_json()
        start = ",\n"
    yield "]" if start != "[" else "[]"


def _cursor(text: str | None) -> str | None:
    """The cursor as a position; one without an event id means before the whole transaction."""
    return text if text is None or "-" in text else f"{text}-0"
