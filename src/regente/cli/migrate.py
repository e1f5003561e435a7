"""`regente migrate …`: apply, revert and list the schema's migrations, by component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from psycopg import AsyncConnection

from regente.cli.command import CommandContext, command
from regente.cli.database import plain_connection
from regente.cli.inputs import YesOption, confirm
from regente.cli.output import Column, figure, status_text, table, when, word
from regente.components import API, components_of, every_component
from regente.engine.errors import InvalidInput
from regente.engine.migrations import ENGINE, Component, Migration, MigrationState, Migrator

if TYPE_CHECKING:
    from rich.console import RenderableType

migrate = typer.Typer(
    name="migrate", help="Install, upgrade and revert the schema.", no_args_is_help=True
)

RevisionArgument = Annotated[
    int | None,
    typer.Argument(
        metavar="[REV]",
        min=0,
        help="Target version of the component; 0 without a component removes all.",
        show_default=False,
    ),
]
ComponentOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Only this component: engine, api, or a built-in pipeline.",
        show_default=False,
    ),
]
_COLUMNS = (
    word("COMPONENT"),
    figure("VERSION"),
    Column("NAME"),
    word("STATUS"),
    word("APPLIED AT"),
)


@command(migrate, "up", example="regente migrate up")
async def up(
    context: CommandContext, revision: RevisionArgument = None, component: ComponentOption = None
) -> None:
    """Apply missing migrations.

    Of the engine, the API, the enabled pipelines (REGENTE_BUILTINS) and the installed components;
    or of one component, to REV or the newest.
    """
    chosen = _chosen(component, revision)
    async with plain_connection(context) as connection:
        if chosen is None:
            applied = await Migrator(connection, await _wanted(context, connection)).up()
        else:
            below = [one for one in components_of([chosen.name]) if one != chosen]
            applied = await Migrator(connection, below).up() if below else []
            applied += await Migrator(connection, [chosen]).up(revision)
        installed = await _installed(connection)
    _answer(context, installed, applied, "applied", "applied")


@command(migrate, "down", example="regente migrate down 0 --yes")
async def down(
    context: CommandContext,
    revision: RevisionArgument = None,
    component: ComponentOption = None,
    yes: YesOption = False,
) -> None:
    """Revert migrations and delete their data: all (0), a component's to REV, or the newest."""
    chosen = _chosen(component, revision)
    async with plain_connection(context) as connection:
        before = await _installed(connection)
        if revision == 0 and chosen is None:
            migrator, target = Migrator(connection, every_component()), 0
        else:
            one = chosen or _last(before)
            version = before.get(one.name, 0)
            target = max(0, version - 1) if revision is None else revision
            _check_no_dependents(one, before)
            before = {one.name: version} if version > target else {}
            migrator = Migrator(connection, [one])
        if before:
            question = (
                f"Revert {_listed(before)} to {target}? The data of what is removed is deleted."
            )
            confirm(question, yes=yes, as_json=context.json)
        reverted = await migrator.down(target)
        installed = await _installed(connection)
    _answer(context, installed, reverted, "taken_back", "reverted")


@command(migrate, "status", example="regente migrate status")
async def status(context: CommandContext) -> None:
    """Show which migrations are applied. Changes nothing."""
    async with plain_connection(context) as connection:
        migrator = Migrator(connection, every_component())
        states, installed = await migrator.status(), await migrator.installed()
        wanted = {one.name for one in await _wanted(context, connection)}
    newest = {name: version for name, version in migrator.newest.items() if name in wanted}
    document = {"version": installed, "newest": newest, "migrations": states}
    context.answer(document, lambda: table(_COLUMNS, (_row(state, wanted) for state in states)))
    is_missing = any(state.applied_at is None and state.component in wanted for state in states)
    if is_missing and not context.json:
        typer.echo("Apply the missing migrations with: regente migrate up", err=True)


def _chosen(name: str | None, revision: int | None) -> Component | None:
    if name is None:
        if revision:
            raise InvalidInput(f"version {revision} of which component? Add --component NAME")
        return None
    known = {component.name: component for component in every_component()}
    if name not in known:
        raise InvalidInput(f"there is no component {name!r}; known: {', '.join(known)}")
    return known[name]


async def _wanted(context: CommandContext, connection: AsyncConnection[Any]) -> list[Component]:
    """The engine, the API, the enabled pipelines, and the installed components."""
    return components_of([*context.switched_on, API.name, *await _installed(connection)])


async def _installed(connection: AsyncConnection[Any]) -> dict[str, int]:
    return await Migrator(connection, every_component()).installed()


def _last(installed: dict[str, int]) -> Component:
    found = [component for component in every_component() if component.name in installed]
    return found[-1] if found else ENGINE


def _check_no_dependents(component: Component, installed: dict[str, int]) -> None:
    others = [name for name in installed if name != ENGINE.name]
    if component == ENGINE and others:
        raise InvalidInput(
            f"{', '.join(others)} depend on the engine: revert them first, or everything with "
            "regente migrate down 0"
        )


def _answer(
    context: CommandContext,
    installed: dict[str, int],
    migrations: Sequence[Migration],
    field: str,
    verb: str,
) -> None:
    names: list[dict[str, Any]] = [
        {"component": one.component, "version": one.version, "name": one.name} for one in migrations
    ]
    listed = ", ".join(f"{one.component} {one.version} ({one.name})" for one in migrations)
    done = f"Migration {listed} {verb}." if migrations else "Nothing to do."
    text = f"{done} Installed: {_listed(installed) or 'nothing'}."
    context.answer({"version": installed, field: names}, lambda: text)


def _listed(versions: dict[str, int]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _row(state: MigrationState, wanted: set[str]) -> tuple[RenderableType, ...]:
    missing = "pending" if state.component in wanted else "off"
    return (
        state.component,
        str(state.version),
        state.name,
        status_text("ok" if state.applied_at else missing),
        when(state.applied_at),
    )
