"""`regente orchestrator …`: open and stop the orchestrator of missions."""

from __future__ import annotations

from typing import Annotated

import typer

from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.output import facts, status_text, when
from regente.pipelines.missions.read_models import Orchestrator

orchestrator = typer.Typer(
    name="orchestrator", help="Open and stop the orchestrator of missions.", no_args_is_help=True
)


@command(orchestrator, "status", example="regente orchestrator status")
async def status(context: CommandContext) -> None:
    """Show whether the orchestrator is open and has missions."""
    async with context.app("missions") as app:
        state = await app.missions.orchestrator()
    _answer(context, state)


@command(orchestrator, "start", audited="orchestrator.start", example="regente orchestrator start")
async def start(context: CommandContext) -> None:
    """Open the orchestrator, which dispatches missions to workers until none is left."""
    async with context.app("missions") as app:
        state = await app.missions.start(by=BY)
    _answer(context, state)


@command(
    orchestrator, "stop", audited="orchestrator.stop", example="regente orchestrator stop --now"
)
async def stop(
    context: CommandContext,
    now: Annotated[
        bool, typer.Option("--now", help="Return running missions to the queue at once.")
    ] = False,
) -> None:
    """Stop the orchestrator: no more missions start, running ones may finish. It stays closed."""
    async with context.app("missions") as app:
        state = await app.missions.stop(now=now, by=BY)
    _answer(context, state)


def _answer(context: CommandContext, state: Orchestrator) -> None:
    work = [
        name
        for name, there in (("queued", state.any_queued), ("running", state.any_running))
        if there
    ]
    context.answer(
        state,
        lambda: facts(
            [
                ("Orchestrator", status_text(state.state)),
                ("Stopped by", state.stopped_by),
                ("Opened", when(state.opened_at)),
                ("Closed", when(state.closed_at)),
                ("Missions", " and ".join(work) or "none queued or running"),
            ]
        ),
    )
