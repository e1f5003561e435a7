"""The command `regente demo`."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regente.cli import output
from regente.cli.command import CommandContext, command
from regente.cli.demo.screen import Screen
from regente.cli.errors import FAILURE_EXIT

if TYPE_CHECKING:
    from regente.cli.demo.report import DemoReport

INTERRUPTED_EXIT = 130


def add_to(root: typer.Typer) -> None:
    command(root, "demo", example="regente demo")(demo)


async def demo(context: CommandContext) -> None:
    """Run 24 missions with sessions, proxies, storage and faults, and check every result.

    Exits with 0 only when every mission has its expected status, nothing was lost and nothing done
    twice. Uses a temporary database; `regente up --demo` keeps it and goes on running.
    """
    with _temporary_data_dir(context) as own_context:
        await run_demo(own_context, keep_running=False)


async def run_demo(context: CommandContext, *, keep_running: bool, console_port: int = 0) -> None:
    from regente.cli.up.command import stop_at_signals

    stop_at_signals()
    try:
        report = await _run(context, keep_running, console_port)
    except asyncio.CancelledError:
        output.note("Interrupted: all processes have stopped, unfinished missions are canceled.")
        raise typer.Exit(INTERRUPTED_EXIT) from None
    if report.wrong:
        raise typer.Exit(FAILURE_EXIT)


async def _run(context: CommandContext, keep_running: bool, console_port: int) -> DemoReport:
    from regente.cli.demo.plan import RUNNER_ENVIRONMENT
    from regente.cli.demo.scenario import DemoScenario
    from regente.cli.up.command import data_dir_of, local_stack_of, note_processes, watch
    from regente.cli.up.stack import LocalStack

    with Screen(stderr=context.json) as screen:
        screen.say(
            "Starting PostgreSQL."
            if context.settings.database_url is None
            else "Connecting to PostgreSQL."
        )
        async with context.app("missions") as app:
            scenario: DemoScenario | None = None
            try:
                async with local_stack_of(context, app, RUNNER_ENVIRONMENT) as processes:
                    stack = LocalStack(app, processes, data_dir_of(context) / "demo")
                    scenario = DemoScenario(app, stack, screen)
                    if keep_running:
                        sign_in = await stack.start_console(console_port)
                        screen.say(f"Sign in to the console (valid once): {sign_in}")
                    report = await scenario.run()
                    screen.close()
                    _show_report(context, report, processes.logs)
                    if keep_running:
                        await note_processes(app, processes)
                        with contextlib.suppress(asyncio.CancelledError):
                            await watch(processes)
                    return report
            except asyncio.CancelledError:
                if scenario is not None:
                    await scenario.cancel_missions()
                raise


def _show_report(context: CommandContext, report: DemoReport, logs: Path) -> None:
    context.answer(report.as_json(), report.as_table)
    for line in report.wrong:
        output.note(f"wrong: {line.name.strip()} is {line.count:,}")
    if report.wrong:
        output.note(f"The logs are in {logs}")
    elif not context.json:
        output.show("\nNothing lost, nothing done twice.")


@contextlib.contextmanager
def _temporary_data_dir(context: CommandContext) -> Iterator[CommandContext]:
    """The context with a temporary data folder, kept after an error, unless a database is given."""
    if context.settings.database_url is not None:
        yield context
        return
    folder = Path(tempfile.mkdtemp(prefix="regente-demo-"))
    folder.chmod(0o755)  # under root the server runs as another user
    settings = context.settings.model_copy(update={"data_dir": folder})
    try:
        yield CommandContext(context.json, settings, context.log_level, context.log_format)
    except BaseException as error:
        if isinstance(error, typer.Exit) and error.exit_code == INTERRUPTED_EXIT:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"Its files are in {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder, ignore_errors=True)
