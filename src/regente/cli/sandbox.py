"""`regente sandbox`: serve an ad library and forward proxies, with faults on demand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from regente.cli.command import CommandContext, command
from regente.cli.output import facts, group, show, table, word, write_json_line
from regente.pipelines.builtins import switched_on

if TYPE_CHECKING:
    from rich.console import RenderableType

    from regente.services.sandbox import Sandbox

_COLUMNS = (word("PROXY"), word("SERVER"), word("USERNAME"), word("PASSWORD"))


def add_to(root: typer.Typer) -> None:
    command(root, "sandbox", example="regente sandbox --port 8100 --proxies 5 --seed 7")(sandbox)


async def sandbox(
    context: CommandContext,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of the ad library; 0 picks a free one.")
    ] = 8100,
    proxies: Annotated[int, typer.Option(min=0, max=1000, help="Number of forward proxies.")] = 3,
    proxy_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port of the first proxy; 0 picks free ones.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="The same seed generates the same ads.")] = 1,
    ads_per_cell: Annotated[
        int, typer.Option(min=1, max=100_000, help="Most ads per day, language and format.")
    ] = 20,
) -> None:
    """Serve an ad library with known totals and forward proxies until SIGTERM or Ctrl-C.

    Set faults at /admin/faults of the library: POST {"kind": "throttled", "count": 3}, GET, DELETE.
    """
    # Imported here: the web framework is slow to import.
    from regente.asgi.server import stopping_signals
    from regente.services.sandbox import Sandbox

    stopped = asyncio.Event()
    services = Sandbox(
        proxies=proxies,
        seed=seed,
        port=port,
        proxy_port=proxy_port,
        ads_per_cell=ads_per_cell,
        standins=[
            one
            for builtin in switched_on(context.settings.builtins)
            for one in builtin.make_standins(seed)
        ],
    )
    with stopping_signals(stopped.set):
        async with services:
            write_json_line(services.addresses()) if context.json else show(_shown(services))
            await stopped.wait()


def _shown(services: Sandbox) -> RenderableType:
    about = facts(
        [("Ad library", services.library_url), ("Faults", f"{services.library_url}/admin/faults")]
    )
    rows = [(one.name, one.server, one.username, one.password) for one in services.proxies]
    return group(about, table(_COLUMNS, rows)) if rows else about
