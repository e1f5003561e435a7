"""`regente orchestrator …` and `regente settings …`: open and stop the orchestrator, and what may
be changed meanwhile."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from regente.cli.command import CommandContext, command
from regente.cli.output import Column, facts, status_text, table, when, word
from regente.pipelines.missions.operations import OrchestratorState

orchestrator = typer.Typer(
    name="orchestrator", help="Open and stop the orchestrator of missions.", no_args_is_help=True
)
settings = typer.Typer(
    name="settings", help="What may be changed while everything runs.", no_args_is_help=True
)

BY = "cli"


@command(orchestrator, "status", example="regente orchestrator status")
async def status(call: CommandContext) -> None:
    """Say whether the orchestrator is open, and whether there is work."""
    async with call.app() as app:
        state = await app.missions.orchestrator()
    _tell(call, state)


@command(orchestrator, "start", example="regente orchestrator start")
async def start(call: CommandContext) -> None:
    """Open it: workers get sessions, missions get workers. It ends by itself when nothing is left
    to do."""
    async with call.app() as app:
        state = await app.missions.start(by=BY)
    _tell(call, state)


@command(orchestrator, "stop", example="regente orchestrator stop --now")
async def stop(
    call: CommandContext,
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait: running missions go back to the queue.")
    ] = False,
) -> None:
    """Give out no more missions. Those that run may finish. It stays closed until it is started
    again."""
    async with call.app() as app:
        state = await app.missions.stop(now=now, by=BY)
    _tell(call, state)


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


def _tell(call: CommandContext, state: OrchestratorState) -> None:
    work = [
        name
        for name, there in (("queued", state.any_queued), ("running", state.any_running))
        if there
    ]
    call.answer(
        state,
        lambda: facts(
            [
                ("Orchestrator", status_text(state.state)),
                ("Stopped by", state.stopped_by),
                ("Opened", when(state.opened_at)),
                ("Closed", when(state.closed_at)),
                ("Missions", " and ".join(work) or "nothing queued, nothing running"),
            ]
        ),
    )
