"""The command: its options, its interruption, its last words."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regente.cli import output
from regente.cli.command import Call, command
from regente.cli.demo.fleet import Fleet
from regente.cli.demo.screen import Screen
from regente.cli.failure import FAILURE_EXIT

if TYPE_CHECKING:
    from regente.cli.demo.stage import Stage
    from regente.cli.demo.verdict import Verdict

RUNNERS = 3
MIN_TASKS = 20  # enough for every kind of trouble that the example knows
INTERRUPTED_EXIT = 130


def add_to(root: typer.Typer) -> None:
    command(root, "demo", example="regente demo --tasks 200")(demo)


async def demo(
    call: Call,
    stay: Annotated[bool, typer.Option("--stay", help="Then stay, with the runners alive, until Ctrl-C.")] = False,
    count: Annotated[int, typer.Option("--tasks", min=MIN_TASKS, max=100_000, help="How many tasks.")] = 1000,
) -> None:
    """See it work: 1,000 tasks, three runners, one killed on the way, and an account of every task at the end.

    Ends with 0 only when nothing was lost, nothing was done twice and every count is as it should be.
    """
    _interrupt_once()
    logs = Path(tempfile.mkdtemp(prefix="regente-demo-"))
    try:
        verdict = await _play(call, count, stay, logs)
    except asyncio.CancelledError:
        shutil.rmtree(logs, ignore_errors=True)
        output.note("Interrupted: the runners have ended, the rest of the batch is canceled.")
        raise typer.Exit(INTERRUPTED_EXIT) from None
    except BaseException:
        output.note(f"The runners' logs are in {logs}")
        raise
    if verdict.wrong:
        raise typer.Exit(FAILURE_EXIT)
    shutil.rmtree(logs, ignore_errors=True)


async def _play(call: Call, count: int, stay: bool, logs: Path) -> Verdict:
    from regente.cli.demo.stage import Stage  # registers the example's pipeline, which no other command is to know

    with Screen(stderr=call.json) as screen:
        screen.say(
            "Starting PostgreSQL and three runners." if call.settings.database_url is None else "Starting three runners."
        )
        async with call.app() as app:
            fleet = Fleet(RUNNERS, call.settings, logs)
            stage = Stage(app, fleet, screen, count)
            try:
                async with fleet:
                    verdict = await stage.play()
                    screen.close()
                    _tell(call, verdict, logs)
                    if stay:
                        await _stay(call, stage, logs)
                    return verdict
            except asyncio.CancelledError:
                await stage.abandon()
                raise


def _tell(call: Call, verdict: Verdict, logs: Path) -> None:
    call.answer(verdict.as_json(), verdict.as_table)
    for line in verdict.wrong:
        output.note(f"wrong: {line.name.strip()} is {line.count:,}, expected {line.expected:,}")
    if verdict.wrong:
        output.note(f"The runners' logs are in {logs}")
    elif not call.json:
        output.show("\nNothing lost, nothing done twice.")


async def _stay(call: Call, stage: Stage, logs: Path) -> None:
    program = _program()
    words = ("tasks list", "dead list", "runners", f'batches show "{stage.name}"', "events --follow", "doctor")
    address = "" if call.settings.database_url is None else " (with the same REGENTE_DATABASE_URL)"
    lines = [f"\nThe runners stay. Look around in another terminal{address}:", *(f"  {program} {word}" for word in words)]
    output.note("\n".join([*lines, f"Their logs are in {logs}", "Ctrl-C ends the runners."]))
    try:
        await stage.keep_alive()
    except asyncio.CancelledError:
        output.note("Ending the runners.")


def _program() -> str:
    """How to call this program from the same folder."""
    if shutil.which("regente"):
        return "regente"
    called = Path(sys.argv[0])
    return str(called) if called.name == "regente" else f"{sys.executable} -m regente"


def _interrupt_once() -> None:
    """The first signal ends the demo in good order; while it does so, further ones change nothing."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    pending = [task.cancel]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: pending.pop()() if pending else None)
