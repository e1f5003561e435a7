"""`regente version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

import typer

from regente.cli.command import CommandContext, command
from regente.engine.migrations import MIGRATIONS_FOLDER, read_migrations


def add_to(root: typer.Typer) -> None:
    command(root, "version", example="regente version")(version)


async def version(call: CommandContext) -> None:
    """Show the versions of Regente, of its schema and of Python."""
    try:
        own = installed_version("regente")
    except PackageNotFoundError:
        own = "unknown"
    document = {
        "regente": own,
        "schema": read_migrations(MIGRATIONS_FOLDER)[-1].version,
        "python": platform.python_version(),
    }
    call.answer(
        document,
        lambda: f"regente {own} (schema {document['schema']}, Python {document['python']})",
    )
