"""`regente runners`: list runners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli.command import CommandContext, command
from regente.cli.inputs import LimitOption
from regente.cli.output import Column, duration, figure, number, status_text, table, word
from regente.engine.models import RunnerInfo, as_dict

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (
    figure("ID"),
    Column("NAME"),
    word("STATUS"),
    figure("BUSY"),
    figure("STUCK"),
    figure("DONE"),
    figure("FAILED"),
    figure("RETRY"),
    figure("SAVED"),
    figure("MEAN"),
)


def add_to(root: typer.Typer) -> None:
    command(root, "runners", example="regente runners --all")(runners)


async def runners(
    context: CommandContext,
    everyone: Annotated[
        bool, typer.Option("--all", help="Include stopped and lost runners.")
    ] = False,
    limit: LimitOption = 50,
) -> None:
    """List runners and their counters. SAVED counts tasks taken over from dead runners."""
    async with context.app() as app:
        found = await app.runners(everyone=everyone, limit=limit)
    nothing = "No runner is alive. Start one with: regente run --import MODULE"
    context.answer(
        [_document(one) for one in found],
        lambda: table(_COLUMNS, map(_row, found)) if found else nothing,
    )


def _document(runner: RunnerInfo) -> dict[str, Any]:
    return as_dict(runner)


def _row(runner: RunnerInfo) -> tuple[RenderableType, ...]:
    overdue = runner.status in ("running", "draining") and not runner.alive
    return (
        str(runner.id),
        runner.name,
        status_text("lost" if overdue else runner.status),
        f"{runner.running:,}/{runner.concurrency:,}",
        number(runner.stuck),
        number(runner.completed),
        number(runner.failed),
        number(runner.retried),
        number(runner.recovered),
        duration(runner.average_seconds),
    )
