"""The command `regente up`."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from regente.app import Regente
from regente.cli import output
from regente.cli.command import CommandContext, command
from regente.cli.serve import DEFAULT_PORT
from regente.cli.up.stack import LocalStack
from regente.cli.up.supervisor import Supervisor
from regente.postgres.embedded import default_data_dir

CHECK_SECONDS = 1.0
OWN_PIPELINES = "For pipelines of your own: regente run --import MODULE\n"


def add_to(root: typer.Typer) -> None:
    command(root, "up", example="regente up --demo")(up)


async def up(
    context: CommandContext,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Add a sandbox, 3 workers and 6 proxies; run 24 missions with faults."
        ),
    ] = False,
    orchestrators: Annotated[int, typer.Option(min=1, max=16, help="Number of runners.")] = 1,
    writer: Annotated[bool, typer.Option(help="Run a writer.")] = True,
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, help="Port of the console; if in use or 0, a free one."),
    ] = DEFAULT_PORT,
) -> None:
    """Run everything on this machine until Ctrl-C: PostgreSQL, runners, a writer, the console."""
    if demo:
        from regente.cli.demo.command import run_demo

        await run_demo(context, keep_running=True, console_port=port)
        return
    stop_at_signals()
    try:
        async with context.full_app() as app, local_stack_of(context, app, {}) as processes:
            stack = LocalStack(app, processes, data_dir_of(context) / "up")
            for number in range(orchestrators if context.switched_on else 0):
                await stack.start_runner(number + 1)
            if writer and "missions" in context.switched_on:
                await stack.start_writer("local-writer")
            sign_in = await stack.start_console(port)
            await note_processes(app, processes, fleet="missions" in context.switched_on)
            output.note(f"Sign in to the console (valid once): {sign_in}")
            await watch(processes)
    except asyncio.CancelledError:
        output.note("All processes have stopped.")


def data_dir_of(context: CommandContext) -> Path:
    return context.settings.data_dir or default_data_dir()


def local_stack_of(
    context: CommandContext, app: Regente, environment: dict[str, str]
) -> Supervisor:
    """A supervisor whose children use this process's database and data folder."""
    shared = {
        "REGENTE_DATABASE_URL": context.settings.database_url or "",
        "REGENTE_DATA_DIR": str(data_dir_of(context)),
    }
    return Supervisor(data_dir_of(context) / "logs", {**shared, **environment})


async def note_processes(app: Regente, processes: Supervisor, *, fleet: bool = True) -> None:
    output.note(
        f"Running: {', '.join(processes.names)}. Logs: {processes.logs}\n"
        f"{await _fleet_note(app) if fleet else OWN_PIPELINES}"
        "Ctrl-C stops everything."
    )


async def _fleet_note(app: Regente) -> str:
    active = Counter(member.kind for member in await app.fleet.members() if member.active)
    counts = ", ".join(output.plural(active[kind], kind) for kind in ("worker", "writer"))
    return (
        f"Active in the fleet: {counts}, {active['proxy']} proxies.\n"
        "In another terminal: regente fleet list · "
        "regente missions create 2025-01-15 --queue · regente missions list\n"
    )


async def watch(processes: Supervisor) -> None:
    """Restart processes that exit, until canceled."""
    while True:
        for name in await processes.restart_exited():
            output.note(f"{name} exited and was restarted.")
        await asyncio.sleep(CHECK_SECONDS)


def stop_at_signals() -> None:
    """Cancel the current task at the first signal; ignore further ones."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    pending = [task.cancel]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: pending.pop()() if pending else None)
