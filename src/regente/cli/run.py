"""`regente run`: be a runner, until told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from regente.app import Regente
from regente.cli.command import CommandContext, command
from regente.cli.errors import FAILURE_EXIT
from regente.cli.imports import ImportsOption, import_pipelines
from regente.cli.inputs import split_names
from regente.engine.counters import DrainReport
from regente.engine.errors import InvalidInput
from regente.engine.log import logger
from regente.engine.models import as_dict
from regente.engine.pipeline import registry
from regente.logs import configure_logs
from regente.pipelines.builtins import builtins

MISSIONS_CONCURRENCY = 5_000  # they mostly wait


def add_to(root: typer.Typer) -> None:
    example = "regente run --import shop.pipelines --pipelines prices,stock --concurrency 50"
    command(root, "run", example=example, fast_loop=True)(run)


async def run(
    call: CommandContext,
    imports: ImportsOption = None,
    pipelines: Annotated[
        str | None, typer.Option(metavar="A,B", help="Serve only these; default: all imported.")
    ] = None,
    offered: Annotated[
        bool | None,
        typer.Option(
            "--offered/--no-offered",
            show_default=False,
            help="Serve the pipelines that come with Regente, missions among them. [default: "
            "when nothing is imported]",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Tasks at once. [default: 100; with missions 5,000]"),
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing is left to do.")
    ] = False,
    name: Annotated[
        str, typer.Option(help="The runner's name. [default: HOST:PID]", show_default=False)
    ] = "",
) -> None:
    """Conduct missions and the other pipelines that come with Regente, or run your own, until
    SIGTERM or Ctrl-C.

    The first signal lets running tasks finish (REGENTE_DRAIN_SECONDS), the second hands them back
    at once, the third leaves them to the other runners. The last line says what became of them.
    """
    wanted = split_names(pipelines)
    conducts = offered if offered is not None else not imports or _names_offered(wanted)
    if imports or not conducts:
        import_pipelines(imports or [])
    if not conducts:
        registry.select(wanted)
    _check_config(call)
    runner = name or f"{socket.gethostname()}:{os.getpid()}"
    configure_logs(level=call.log_level, log_format=call.log_format, fields={"runner": runner})
    app = call.app()
    signals = SignalHandler(app)
    signals.attach()
    async with app:
        if conducts:
            app.conduct(wanted)
        slots = concurrency or (MISSIONS_CONCURRENCY if conducts else None)
        work = app.run(wanted, concurrency=slots, until_idle=until_idle, name=runner)
        report = await signals.unless_pulled(work)
    call.answer(as_dict(report), lambda: str(report))
    if report.lost:
        raise typer.Exit(FAILURE_EXIT)


def _names_offered(wanted: list[str] | None) -> bool:
    known = {name for one in builtins() for name in one.pipelines}
    return not known.isdisjoint(wanted or ())


def _check_config(call: CommandContext) -> None:
    try:
        call.settings.runner_config()
    except ValueError as error:
        raise InvalidInput(str(error)) from None


class SignalHandler:
    """Turns signals into the runner's way out: drain, then hand back, then leave."""

    def __init__(self, app: Regente) -> None:
        self._app = app
        self._loop = asyncio.get_running_loop()
        self.pulls = 0

    def attach(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.pull, signal.Signals(number).name)

    async def unless_pulled(self, work: Coroutine[Any, Any, DrainReport]) -> DrainReport:
        """A signal may come before there is a runner to stop."""
        if self.pulls:
            work.close()
            return DrainReport(0, 0, 0)
        return await work

    def pull(self, cause: str) -> None:
        self.pulls += 1
        if self.pulls == 1:
            logger.info("%s: no new tasks; the running ones may finish", cause)
        elif self.pulls == 2:
            logger.warning("%s again: running tasks are handed back now", cause)
        else:
            logger.error(
                "%s a third time: leaving; other runners take over when the lease runs out", cause
            )
            os._exit(FAILURE_EXIT)
        self._app.stop_running()
