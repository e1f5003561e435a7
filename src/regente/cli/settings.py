"""`regente settings …`: what may be changed while everything runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from regente.cli.command import CommandContext, command
from regente.cli.output import Column, table, word

settings = typer.Typer(
    name="settings", help="What may be changed while everything runs.", no_args_is_help=True
)

BY = "cli"


@command(settings, "list", example="regente settings list")
async def list_settings(call: CommandContext) -> None:
    """List the settings that may be changed, and the fixed parameters beside them."""
    async with call.app() as app:
        runtime_settings = await app.runtime_settings.all()
        fixed = {
            name: value
            for name, value in asdict(app.fleet.config).items()
            if isinstance(value, int | float)
        }
    rows = [
        (name, _shown(value), "regente settings set") for name, value in runtime_settings.items()
    ]
    rows += [(name, _shown(value), "fixed (environment)") for name, value in fixed.items()]
    columns = (word("SETTING"), word("VALUE"), Column("CHANGED BY"))
    call.answer({"settings": runtime_settings, "fixed": fixed}, lambda: table(columns, rows))


@command(settings, "set", example="regente settings set session_limit 8")
async def set_setting(
    call: CommandContext,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="One of those that `settings list` shows.", show_default=False
        ),
    ],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The new value.", show_default=False)
    ],
) -> None:
    """Change a setting. What runs obeys it at its next decision."""
    async with call.app() as app:
        changed = await app.runtime_settings.set(key, value, by=BY)
    call.answer(changed, lambda: f"{key} is {_shown(changed[key])}.")


def _shown(value: float | bool) -> str:
    return str(value) if isinstance(value, bool) else f"{value:g}"
