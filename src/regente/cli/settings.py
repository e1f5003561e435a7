"""`regente settings …`: list and change the runtime settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.output import Column, table, word

settings = typer.Typer(
    name="settings", help="List and change runtime settings.", no_args_is_help=True
)


@command(settings, "list", example="regente settings list")
async def list_settings(context: CommandContext) -> None:
    """List the runtime settings and the fixed parameters."""
    async with context.app() as app:
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
    context.answer({"settings": runtime_settings, "fixed": fixed}, lambda: table(columns, rows))


@command(settings, "set", audited="settings.set", example="regente settings set session_limit 8")
async def set_setting(
    context: CommandContext,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="A setting of `regente settings list`.", show_default=False
        ),
    ],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The new value.", show_default=False)
    ],
) -> None:
    """Change a runtime setting. Running processes apply it without a restart.

    retention_days deletes ended work of that age, missions and their log included: these are kept
    until it is set (or REGENTE_RETENTION_DAYS), other pipelines' for 30 days.
    """
    async with context.app() as app:
        changed = await app.runtime_settings.set(key, value, by=BY)
    context.answer(changed, lambda: f"{key} is {_shown(changed[key])}.")


def _shown(value: float | bool) -> str:
    return str(value) if isinstance(value, bool) else f"{value:g}"
