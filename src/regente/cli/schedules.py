"""`regente schedules …`: list, add and remove cron schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli.command import CommandContext, command
from regente.cli.imports import ImportsOption, import_modules
from regente.cli.inputs import parse_args
from regente.cli.output import Column, figure, table, when, word

if TYPE_CHECKING:
    from rich.console import RenderableType

schedules = typer.Typer(
    name="schedules", help="List, add and remove cron schedules.", no_args_is_help=True
)

_COLUMNS = (
    Column("NAME"),
    Column("PIPELINE"),
    word("CRON"),
    Column("TIME ZONE"),
    word("NEXT"),
    figure("LAST TASK"),
)


@command(schedules, "list", example="regente schedules list")
async def list_schedules(context: CommandContext) -> None:
    """List schedules and their next run."""
    async with context.app() as app:
        found = await app.schedules()
    nothing = 'No schedules yet. Add one with: regente schedules add NAME PIPELINE "0 4 * * *"'
    context.answer(found, lambda: table(_COLUMNS, map(_row, found)) if found else nothing)


@command(
    schedules,
    "add",
    audited="schedules.add",
    example="""regente schedules add nightly prices "0 4 * * *" '{"shop": 7}' """
    "--timezone America/Sao_Paulo",
)
async def add(
    context: CommandContext,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A schedule of the same name is replaced.")
    ],
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline to run.")],
    cron: Annotated[
        str, typer.Argument(metavar="CRON", help="Minute, hour, day, month, weekday, in quotes.")
    ],
    args: Annotated[
        str | None, typer.Argument(metavar="[ARGS_JSON]", help="Arguments of each task.")
    ] = None,
    timezone: Annotated[str, typer.Option(help="Time zone of the cron expression.")] = "UTC",
    priority: Annotated[int, typer.Option(help="Higher comes first.")] = 0,
    imports: ImportsOption = None,
) -> None:
    """Add or replace a schedule that enqueues a task at each time of a cron expression."""
    import_modules(imports or [])
    async with context.app() as app:
        first = await app.schedule(
            name, pipeline, cron, parse_args(args), timezone=timezone, priority=priority
        )
    context.answer(
        {"name": name, "next_at": first}, lambda: f"{name} fires first at {when(first)}."
    )


@command(
    schedules, "remove", audited="schedules.remove", example="regente schedules remove nightly"
)
async def remove(
    context: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")],
) -> None:
    """Remove a schedule. The tasks that it enqueued stay."""
    async with context.app() as app:
        await app.unschedule(name)
    context.answer({"removed": name}, lambda: f"{name} is removed.")


def _row(one: dict[str, Any]) -> tuple[RenderableType, ...]:
    return (
        one["name"],
        one["pipeline"],
        one["cron"],
        one["timezone"],
        when(one["next_at"]),
        str(one["last_task"] or ""),
    )
