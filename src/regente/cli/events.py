"""`regente events`: the feed of everything that happens, without gaps."""

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
    call: CommandContext,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with what happens from now on, until Ctrl-C."),
    ] = False,
    task_id: Annotated[
        int | None, typer.Option("--task", min=1, max=MAX_ID, help="Only this task's.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Only what comes after this position.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """Show the latest events, oldest first. With --follow and --json each event is one line."""
    async with call.app() as app:
        end = after or await feed_end(app)
        if after is not None:
            found = (
                []
                if follow
                else [one for one in await app.feed(after, limit) if _wanted(one, task_id)]
            )
        else:
            latest = await recent_events(app, task_id=task_id, limit=limit)
            found = (
                [one for one in latest if _place(one.position) <= _place(end)] if follow else latest
            )
        if not follow:
            call.answer(
                [_document(one) for one in found],
                lambda: table(_COLUMNS, map(_row, found)) if found else _NOTHING,
            )
            return
        for one in found:
            _write(call, one)
        async for one in _new_events(app, end):
            if _wanted(one, task_id):
                _write(call, one)


_NOTHING = "No events yet. Enqueue a task with: regente enqueue PIPELINE '{}'"


async def _new_events(app: Regente, position: str) -> AsyncIterator[Event]:
    while True:
        try:
            found = await app.feed(position)
        except psycopg.OperationalError as error:
            output.note(f"the database is away: {str(error).strip().splitlines()[0]}")
            found = []
        for one in found:
            yield one
            position = one.position
        if not found:
            await asyncio.sleep(POLL_SECONDS)


def _place(position: str) -> tuple[int, int]:
    txid, _, event_id = position.partition("-")
    return int(txid), int(event_id)


def _wanted(event: Event, task_id: int | None) -> bool:
    return task_id is None or event.task_id == task_id


def _write(call: CommandContext, event: Event) -> None:
    if call.json:
        output.write_json_line(_document(event))
        return
    subject = (
        f"task {event.task_id}"
        if event.task_id
        else f"batch {event.batch_id}"
        if event.batch_id
        else ""
    )
    words = (
        when(event.at),
        subject or f"runner {event.runner_id}",
        event.event,
        shortened_line(event.details),
    )
    output.show("  ".join(word for word in words if word))


def _document(event: Event) -> dict[str, Any]:
    return {**as_dict(event), "position": event.position}


def _row(event: Event) -> tuple[RenderableType, ...]:
    return (
        when(event.at),
        str(event.task_id or ""),
        event.event,
        str(event.attempt or ""),
        shortened_line(event.details),
    )
