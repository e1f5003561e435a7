"""`regente run`: run tasks until stopped."""

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
    context: CommandContext,
    imports: ImportsOption = None,
    pipelines: Annotated[
        str | None, typer.Option(metavar="A,B", help="Serve only these; default: all imported.")
    ] = None,
    with_builtins: Annotated[
        bool | None,
        typer.Option(
            "--offered/--no-offered",
            show_default=False,
            help="Serve the built-in pipelines, missions included. "
            "[default: when nothing is imported]",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Tasks at once. [default: 100; with missions 5,000]"),
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Exit when no task is left to run.")
    ] = False,
    name: Annotated[
        str,
        typer.Option(
            envvar="WORKER_ID",
            show_envvar=False,
            show_default=False,
            help="The runner's name. [default: WORKER_ID, else HOST:PID]",
        ),
    ] = "",
) -> None:
    """Run the tasks of the built-in pipelines, or of your own, until SIGTERM or Ctrl-C.

    The first signal lets running tasks finish (REGENTE_DRAIN_SECONDS), the second returns them to
    the queue, the third exits at once. The last line counts the tasks in each outcome.
    """
    wanted = split_names(pipelines)
    if with_builtins is None:
        with_builtins = not imports or _names_builtins(wanted)
    if imports or not with_builtins:
        import_pipelines(imports or [])
    if not with_builtins:
        registry.select(wanted)
    _check_config(context)
    runner = name or f"{socket.gethostname()}:{os.getpid()}"
    configure_logs(
        level=context.log_level, log_format=context.log_format, fields={"runner": runner}
    )
    app = context.app()
    signals = SignalHandler(app)
    signals.attach()
    async with app:
        if with_builtins:
            app.conduct(wanted)
        slots = concurrency or (MISSIONS_CONCURRENCY if with_builtins else None)
        work = app.run(wanted, concurrency=slots, until_idle=until_idle, name=runner)
        report = await signals.run_unless_stopped(work)
    context.answer(as_dict(report), lambda: str(report))
    if report.lost:
        raise typer.Exit(FAILURE_EXIT)


def _names_builtins(wanted: list[str] | None) -> bool:
    known = {name for one in builtins() for name in one.pipelines}
    return not known.isdisjoint(wanted or ())


def _check_config(context: CommandContext) -> None:
    try:
        context.settings.runner_config()
    except ValueError as error:
        raise InvalidInput(str(error)) from None


class SignalHandler:
    """Stops the runner: the first signal drains, the second returns tasks, the third exits."""

    def __init__(self, app: Regente) -> None:
        self._app = app
        self._loop = asyncio.get_running_loop()
        self.received = 0

    def attach(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.stop, signal.Signals(number).name)

    async def run_unless_stopped(self, work: Coroutine[Any, Any, DrainReport]) -> DrainReport:
        """Await `work`, unless a signal came before the runner started."""
        if self.received:
            work.close()
            return DrainReport(0, 0, 0)
        return await work

    def stop(self, cause: str) -> None:
        self.received += 1
        if self.received == 1:
            logger.info("%s: draining, running tasks may finish", cause)
        elif self.received == 2:
            logger.warning("%s again: returning running tasks to the queue", cause)
        else:
            logger.error(
                "%s a third time: exiting; other runners take over when the lease expires", cause
            )
            os._exit(FAILURE_EXIT)
        self._app.stop_running()
