"""`regente migrate …`: the schema's versions, by component."""

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
    name="migrate", help="Install, upgrade and take back the schema.", no_args_is_help=True
)

RevisionArgument = Annotated[
    int | None,
    typer.Argument(
        metavar="[REV]",
        min=0,
        help="Version of the component to arrive at; 0 without a component: nothing of any.",
        show_default=False,
    ),
]
ComponentOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Only this one: engine, api, or a pipeline that comes with Regente.",
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
    call: CommandContext, revision: RevisionArgument = None, component: ComponentOption = None
) -> None:
    """Apply what is missing: of the engine, the API, the pipelines that are switched on
    (REGENTE_BUILTINS) and what is installed already; or of one component, to REV or the newest."""
    chosen = _chosen(component, revision)
    async with plain_connection(call) as connection:
        if chosen is None:
            applied = await Migrator(connection, await _wanted(call, connection)).up()
        else:
            below = [one for one in components_of([chosen.name]) if one != chosen]
            applied = await Migrator(connection, below).up() if below else []
            applied += await Migrator(connection, [chosen]).up(revision)
        installed = await _installed(connection)
    _answer(call, installed, applied, "applied")


@command(migrate, "down", example="regente migrate down 0 --yes")
async def down(
    call: CommandContext,
    revision: RevisionArgument = None,
    component: ComponentOption = None,
    yes: YesOption = False,
) -> None:
    """Take migrations back: all of them (0), one component's down to REV, or the newest one only.
    What they hold is deleted."""
    chosen = _chosen(component, revision)
    async with plain_connection(call) as connection:
        before = await _installed(connection)
        if revision == 0 and chosen is None:
            migrator, target = Migrator(connection, every_component()), 0
        else:
            one = chosen or _last(before)
            version = before.get(one.name, 0)
            target = max(0, version - 1) if revision is None else revision
            _check_nothing_rests_on(one, before)
            before = {one.name: version} if version > target else {}
            migrator = Migrator(connection, [one])
        if before:
            question = (
                f"Take {_listed(before)} back to {target}? The data of what is removed is deleted."
            )
            confirm(question, yes=yes, as_json=call.json)
        taken = await migrator.down(target)
        installed = await _installed(connection)
    _answer(call, installed, taken, "taken back")


@command(migrate, "status", example="regente migrate status")
async def status(call: CommandContext) -> None:
    """Show which migrations of which components are applied. Changes nothing."""
    async with plain_connection(call) as connection:
        migrator = Migrator(connection, every_component())
        states, installed = await migrator.status(), await migrator.installed()
        wanted = {one.name for one in await _wanted(call, connection)}
    newest = {name: version for name, version in migrator.newest.items() if name in wanted}
    document = {"version": installed, "newest": newest, "migrations": states}
    call.answer(document, lambda: table(_COLUMNS, (_row(state, wanted) for state in states)))
    is_missing = any(state.applied_at is None and state.component in wanted for state in states)
    if is_missing and not call.json:
        typer.echo("Apply what is missing with: regente migrate up", err=True)


def _chosen(name: str | None, revision: int | None) -> Component | None:
    if name is None:
        if revision:
            raise InvalidInput(f"say of what {revision} is the version: --component NAME")
        return None
    known = {component.name: component for component in every_component()}
    if name not in known:
        raise InvalidInput(f"there is no component {name!r}; known: {', '.join(known)}")
    return known[name]


async def _wanted(call: CommandContext, connection: AsyncConnection[Any]) -> list[Component]:
    """What is switched on, and what is installed already."""
    return components_of([*call.switched_on, API.name, *await _installed(connection)])


async def _installed(connection: AsyncConnection[Any]) -> dict[str, int]:
    return await Migrator(connection, every_component()).installed()


def _last(installed: dict[str, int]) -> Component:
    found = [component for component in every_component() if component.name in installed]
    return found[-1] if found else ENGINE


def _check_nothing_rests_on(component: Component, installed: dict[str, int]) -> None:
    others = [name for name in installed if name != ENGINE.name]
    if component == ENGINE and others:
        raise InvalidInput(
            f"{', '.join(others)} cannot do without the engine: take them back first, or "
            "everything with regente migrate down 0"
        )


def _answer(
    call: CommandContext, installed: dict[str, int], moved: Sequence[Migration], verb: str
) -> None:
    names: list[dict[str, Any]] = [
        {"component": one.component, "version": one.version, "name": one.name} for one in moved
    ]
    listed = ", ".join(f"{one.component} {one.version} ({one.name})" for one in moved)
    done = f"Migration {listed} {verb}." if moved else "Nothing to do."
    text = f"{done} Installed: {_listed(installed) or 'nothing'}."
    call.answer({"version": installed, verb.replace(" ", "_"): names}, lambda: text)


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
