"""`regente version`: show versions."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

import typer

from regente.cli.command import CommandContext, command
from regente.components import every_component
from regente.engine.migrations import read_migrations


def add_to(root: typer.Typer) -> None:
    command(root, "version", example="regente version")(version)


async def version(context: CommandContext) -> None:
    """Show the versions of Regente, of its schema and of Python."""
    try:
        own = installed_version("regente")
    except PackageNotFoundError:
        own = "unknown"
    schema = {one.name: read_migrations(one)[-1].version for one in every_component()}
    listed = ", ".join(f"{name} {newest}" for name, newest in schema.items())
    document = {
        "regente": own,
        "schema": schema,
        "python": platform.python_version(),
    }
    context.answer(
        document,
        lambda: f"regente {own} (schema {listed}; Python {document['python']})",
    )
