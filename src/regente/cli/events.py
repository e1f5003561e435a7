"""`regente events`: show and follow the feed of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
import typer

from regente.app import Regente
from regente.cli import output
from regente.cli.command import CommandContext, command
from regente.cli.inputs import MAX_ID, LimitOption
from regente.cli.output import Column, figure, table, when, word
from regente.cli.queries import feed_end, recent_events
from regente.cli.task_view import shortened_line
from regente.engine.models import Event, as_dict
from regente.redaction import redacted

if TYPE_CHECKING:
    from rich.console import RenderableType

POLL_SECONDS = 0.5
_COLUMNS = (
    word("TIME"),
    figure("TASK"),
    Column("EVENT"),
    figure("ATTEMPT"),
    Column("DETAILS"),
)


def add_to(root: typer.Typer) -> None:
    command(root, "events", example="regente events --follow --json")(events)


async def events(
    context: CommandContext,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Print new events as they happen, until Ctrl-C."),
    ] = False,
    task_id: Annotated[
        int | None, typer.Option("--task", min=1, max=MAX_ID, help="Only of this task.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Only after this position.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """Show the latest events, oldest first. With --follow and --json each event is one line."""
    async with context.app() as app:
        if follow:
            await _follow(context, app, task_id, after, limit)
            return
        found = await _stored_events(app, task_id, after, limit)
    nothing = "No events yet. Enqueue a task with: regente enqueue PIPELINE '{}'"
    context.answer(
        [_document(one) for one in found],
        lambda: table(_COLUMNS, map(_row, found)) if found else nothing,
    )


async def _stored_events(
    app: Regente, task_id: int | None, after: str | None, limit: int
) -> list[Event]:
    if after is None:
        return await recent_events(app, task_id=task_id, limit=limit)
    return [one for one in await app.feed(after, limit) if _matches(one, task_id)]


async def _follow(
    context: CommandContext, app: Regente, task_id: int | None, after: str | None, limit: int
) -> None:
    """Print the latest events, unless a position is given, and then every new one."""
    start = after or await feed_end(app)
    if after is None:
        for one in await recent_events(app, task_id=task_id, limit=limit):
            if _order(one.position) <= _order(start):
                _write(context, one)
    async for one in _new_events(app, start):
        if _matches(one, task_id):
            _write(context, one)


async def _new_events(app: Regente, position: str) -> AsyncIterator[Event]:
    while True:
        try:
            found = await app.feed(position)
        except psycopg.OperationalError as error:
            output.note(f"PostgreSQL is unavailable: {str(error).strip().splitlines()[0]}")
            found = []
        for one in found:
            yield one
            position = one.position
        if not found:
            await asyncio.sleep(POLL_SECONDS)


def _order(position: str) -> tuple[int, int]:
    txid, event_id, *_ = position.split("-")
    return int(txid), int(event_id)


def _matches(event: Event, task_id: int | None) -> bool:
    return task_id is None or event.task_id == task_id


def _write(context: CommandContext, event: Event) -> None:
    if context.json:
        output.write_json_line(_document(event))
        return
    parts = (when(event.at), _subject(event), event.event, shortened_line(event.details))
    output.show("  ".join(part for part in parts if part))


def _subject(event: Event) -> str:
    if event.task_id:
        return f"task {event.task_id}"
    return f"batch {event.batch_id}" if event.batch_id else f"runner {event.runner_id}"


def _document(event: Event) -> dict[str, Any]:
    document: dict[str, Any] = redacted(as_dict(event))
    return document


def _row(event: Event) -> tuple[RenderableType, ...]:
    return (
        when(event.at),
        str(event.task_id or ""),
        event.event,
        str(event.attempt or ""),
        shortened_line(event.details),
    )
