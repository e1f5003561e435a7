"""The command: its options, its interruption, its last words."""

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


async def demo(call: CommandContext) -> None:
    """See it work: 24 missions, real sessions, proxies and storage, every kind of fault, and an
    account at the end.

    Ends with 0 only when every mission is in the state that is right for it, nothing was lost and
    nothing done twice. Runs in a database of its own that goes when it ends; `regente up --demo`
    does the same and stays.
    """
    with _own_place(call) as placed:
        await play(placed, stay=False)


async def play(call: CommandContext, *, stay: bool, console_port: int = 0) -> None:
    from regente.cli.up.command import stop_at_signals

    stop_at_signals()
    try:
        verdict = await _play(call, stay, console_port)
    except asyncio.CancelledError:
        output.note("Interrupted: everything has ended, the rest of the missions is canceled.")
        raise typer.Exit(INTERRUPTED_EXIT) from None
    if verdict.wrong:
        raise typer.Exit(FAILURE_EXIT)


async def _play(call: CommandContext, stay: bool, console_port: int) -> DemoReport:
    from regente.cli.demo.plan import ORCHESTRATOR_ENVIRONMENT
    from regente.cli.demo.scenario import DemoScenario
    from regente.cli.up.command import data_dir_of, local_stack_of, tell_what_is_up, watch
    from regente.cli.up.stack import LocalStack

    with Screen(stderr=call.json) as screen:
        screen.say(
            "Starting PostgreSQL."
            if call.settings.database_url is None
            else "Connecting to PostgreSQL."
        )
        async with call.app("missions") as app:
            stage: DemoScenario | None = None
            try:
                async with local_stack_of(call, app, ORCHESTRATOR_ENVIRONMENT) as processes:
                    stage = DemoScenario(
                        app, LocalStack(app, processes, data_dir_of(call) / "demo"), screen
                    )
                    if stay:
                        screen.say(f"The console, once: {await stage.stack.console(console_port)}")
                    verdict = await stage.play()
                    screen.close()
                    _tell(call, verdict, processes.logs)
                    if stay:
                        await tell_what_is_up(call, app, processes)
                        with contextlib.suppress(asyncio.CancelledError):
                            await watch(processes)
                    return verdict
            except asyncio.CancelledError:
                if stage is not None:
                    await stage.abandon()
                raise


def _tell(call: CommandContext, verdict: DemoReport, logs: Path) -> None:
    call.answer(verdict.as_json(), verdict.as_table)
    for line in verdict.wrong:
        output.note(f"wrong: {line.name.strip()} is {line.count:,}")
    if verdict.wrong:
        output.note(f"The logs are in {logs}")
    elif not call.json:
        output.show("\nNothing lost, nothing done twice.")


@contextlib.contextmanager
def _own_place(call: CommandContext) -> Iterator[CommandContext]:
    """A data folder of its own, kept only when something went wrong; a database that was given is
    used as it is."""
    if call.settings.database_url is not None:
        yield call
        return
    folder = Path(tempfile.mkdtemp(prefix="regente-demo-"))
    folder.chmod(0o755)  # the server of a root user runs as another one
    settings = call.settings.model_copy(update={"data_dir": folder})
    try:
        yield CommandContext(call.json, settings, call.log_level, call.log_format)
    except BaseException as error:
        if isinstance(error, typer.Exit) and error.exit_code == INTERRUPTED_EXIT:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"What it left is in {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder, ignore_errors=True)
