"""`regente pipelines …`: list, pause and resume pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.output import Column, figure, number, status_text, table, when, word

if TYPE_CHECKING:
    from rich.console import RenderableType

pipelines = typer.Typer(
    name="pipelines", help="List, pause and resume pipelines.", no_args_is_help=True
)

NameArgument = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.", show_default=False)
]
_COLUMNS = (
    Column("PIPELINE"),
    word("STATUS"),
    figure("QUEUED"),
    figure("RUNNING"),
    figure("DONE"),
    figure("FAILED"),
    word("SEEN AT"),
    Column("VERSIONS"),
)


@command(pipelines, "list", example="regente pipelines list")
async def list_pipelines(context: CommandContext) -> None:
    """List pipelines with their tasks. DONE counts completed, skipped and canceled tasks."""
    async with context.app() as app:
        found = [{**one, "counts": await app.counts(one["name"])} for one in await app.pipelines()]
    nothing = (
        "No pipelines yet: a runner registers its pipelines when it starts. "
        "Start one with: regente run --import MODULE"
    )
    context.answer(found, lambda: table(_COLUMNS, map(_row, found)) if found else nothing)


@command(pipelines, "pause", audited="pipelines.pause", example="regente pipelines pause prices")
async def pause(context: CommandContext, name: NameArgument) -> None:
    """Pause a pipeline: runners claim none of its tasks; running tasks continue."""
    async with context.app() as app:
        await app.pause(name, by=BY)
    context.answer(
        {"name": name, "paused": True},
        lambda: f"{name} is paused. Resume it with: regente pipelines resume {name}",
    )


@command(pipelines, "resume", audited="pipelines.resume", example="regente pipelines resume prices")
async def resume(context: CommandContext, name: NameArgument) -> None:
    """Resume a paused pipeline."""
    async with context.app() as app:
        await app.resume(name, by=BY)
    context.answer({"name": name, "paused": False}, lambda: f"{name} is resumed.")


def _row(one: dict[str, Any]) -> tuple[RenderableType, ...]:
    counts = one["counts"]
    return (
        one["name"],
        status_text("paused" if one["paused"] else "ok"),
        number(counts["queued"]),
        number(counts["running"]),
        number(counts["completed"] + counts["skipped"] + counts["canceled"]),
        number(counts["failed"]),
        when(one["seen_at"]),
        ", ".join(one["versions"]),
    )
