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

LOOK_EVERY_SECONDS = 1.0


def add_to(root: typer.Typer) -> None:
    command(root, "up", example="regente up --demo")(up)


async def up(
    call: CommandContext,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="With sandbox, 3 workers, 6 proxies, 24 missions, faults."),
    ] = False,
    orchestrators: Annotated[int, typer.Option(min=1, max=16, help="Orchestrator processes.")] = 1,
    writer: Annotated[bool, typer.Option(help="Run a writer here, too.")] = True,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Of the console; taken or 0: a free one.")
    ] = DEFAULT_PORT,
) -> None:
    """Run everything on this machine until Ctrl-C: PostgreSQL, orchestrators, writer, console;
    --demo: a whole sandbox."""
    if demo:
        from regente.cli.demo.command import play

        await play(call, stay=True, console_port=port)
        return
    stop_at_signals()
    try:
        async with call.full_app() as app, local_stack_of(call, app, {}) as processes:
            stack = LocalStack(app, processes, data_dir_of(call) / "up")
            for number in range(orchestrators):
                await stack.orchestrator(number + 1)
            if writer and "missions" in call.switched_on:
                await stack.writer("local-writer")
            sign_in = await stack.console(port)
            await tell_what_is_up(call, app, processes)
            output.note(f"The console, once: {sign_in}")
            await watch(processes)
    except asyncio.CancelledError:
        output.note("Everything has ended.")


def data_dir_of(call: CommandContext) -> Path:
    return call.settings.data_dir or default_data_dir()


def local_stack_of(call: CommandContext, app: Regente, environment: dict[str, str]) -> Supervisor:
    """Children use the very database and data folder that this process uses."""
    shared = {
        "REGENTE_DATABASE_URL": call.settings.database_url or "",
        "REGENTE_DATA_DIR": str(data_dir_of(call)),
    }
    return Supervisor(data_dir_of(call) / "logs", {**shared, **environment})


async def tell_what_is_up(call: CommandContext, app: Regente, processes: Supervisor) -> None:
    active = Counter(member.kind for member in await app.fleet.members() if member.active)
    lines = [
        f"Up: {', '.join(processes.names)}. Logs: {processes.logs}",
        (
            f"Active in the fleet: {active['worker']} workers, {active['proxy']} proxies, "
            f"{active['writer']} writers."
        ),
        (
            "In another terminal: regente fleet list · regente missions create 2025-01-15 "
            "--queue · regente missions list"
        ),
        "Ctrl-C ends everything.",
    ]
    output.note("\n".join(lines))


async def watch(processes: Supervisor) -> None:
    """Until the caller is canceled: what falls is started again."""
    while True:
        for name in await processes.replace_fallen():
            output.note(f"{name} ended by itself and was started again.")
        await asyncio.sleep(LOOK_EVERY_SECONDS)


def stop_at_signals() -> None:
    """The first signal ends this in good order; while it does so, further ones change nothing."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    pending = [task.cancel]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: pending.pop()() if pending else None)
