"""`regente migrate …`: the schema's versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli.command import CommandContext, command
from regente.cli.database import plain_connection
from regente.cli.inputs import YesOption, confirm
from regente.cli.output import Column, figure, status_text, table, when, word
from regente.engine.migrations import Migration, MigrationState, Migrator

if TYPE_CHECKING:
    from rich.console import RenderableType

migrate = typer.Typer(
    name="migrate", help="Install, upgrade and take back the schema.", no_args_is_help=True
)

RevisionArgument = Annotated[
    int | None,
    typer.Argument(metavar="[REV]", min=0, help="Version to arrive at.", show_default=False),
]
_COLUMNS = (
    figure("VERSION"),
    Column("NAME"),
    word("STATUS"),
    word("APPLIED AT"),
)


@command(migrate, "up", example="regente migrate up")
async def up(call: CommandContext, revision: RevisionArgument = None) -> None:
    """Apply what is missing: to REV, or to the newest version."""
    async with plain_connection(call) as connection:
        migrator = Migrator(connection)
        applied = await migrator.up(revision)
        version = await migrator.version()
    _answer(call, version, applied, "applied")


@command(migrate, "down", example="regente migrate down 0 --yes")
async def down(
    call: CommandContext, revision: RevisionArgument = None, yes: YesOption = False
) -> None:
    """Take migrations back: down to REV, or the newest one only. What they hold is deleted."""
    async with plain_connection(call) as connection:
        migrator = Migrator(connection)
        found = await migrator.version()
        target = max(0, found - 1) if revision is None else revision
        if found > target:
            question = (
                f"Take the schema from version {found} back to {target}? The data of what is "
                "removed is deleted."
            )
            confirm(question, yes=yes, as_json=call.json)
        taken = await migrator.down(target)
        version = await migrator.version()
    _answer(call, version, taken, "taken back")


@command(migrate, "status", example="regente migrate status")
async def status(call: CommandContext) -> None:
    """Show which migrations are applied. Changes nothing."""
    async with plain_connection(call) as connection:
        migrator = Migrator(connection)
        states = await migrator.status()
        version, newest = await migrator.version(), migrator.newest
    document = {"version": version, "newest": newest, "migrations": states}
    call.answer(document, lambda: table(_COLUMNS, map(_row, states)))
    if version < newest and not call.json:
        typer.echo("Apply what is missing with: regente migrate up", err=True)


def _answer(call: CommandContext, version: int, moved: list[Migration], verb: str) -> None:
    names: list[dict[str, Any]] = [{"version": one.version, "name": one.name} for one in moved]
    listed = ", ".join(f"{one.version} ({one.name})" for one in moved)
    text = (
        f"Migration {listed} {verb}. The schema is at version {version}."
        if moved
        else f"Nothing to do: the schema is at version {version}."
    )
    call.answer({"version": version, verb.replace(" ", "_"): names}, lambda: text)


def _row(state: MigrationState) -> tuple[RenderableType, ...]:
    return (
        str(state.version),
        state.name,
        status_text("ok" if state.applied_at else "pending"),
        when(state.applied_at),
    )
