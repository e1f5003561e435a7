"""`regente sandbox`: an ad library with proxies and faults, until told to stop."""

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
    call: CommandContext,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Of the ad library; 0 takes a free one.")
    ] = 8100,
    proxies: Annotated[int, typer.Option(min=0, max=1000, help="How many forward proxies.")] = 3,
    proxy_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Of the first proxy; 0 takes free ones.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="The same seed has the same ads.")] = 1,
    ads_per_cell: Annotated[
        int, typer.Option(min=1, max=100_000, help="Most ads per day, language and format.")
    ] = 20,
) -> None:
    """Serve an ad library with known totals and real forward proxies on this machine, until SIGTERM
    or Ctrl-C.

    Faults are switched at /admin/faults of the library: POST {"kind": "throttled", "count": 3},
    GET, DELETE.
    """
    # The web framework is heavy: only the commands that serve pay for it.
    from regente.asgi.server import stopping_signals
    from regente.services.sandbox import Sandbox

    stopped = asyncio.Event()
    place = Sandbox(
        proxies=proxies,
        seed=seed,
        port=port,
        proxy_port=proxy_port,
        ads_per_cell=ads_per_cell,
        standins=[
            one
            for builtin in switched_on(call.settings.builtins)
            for one in builtin.make_standins(seed)
        ],
    )
    with stopping_signals(stopped.set):
        async with place:
            write_json_line(place.addresses()) if call.json else show(_shown(place))
            await stopped.wait()


def _shown(place: Sandbox) -> RenderableType:
    about = facts(
        [("Ad library", place.library_url), ("Faults", f"{place.library_url}/admin/faults")]
    )
    rows = [(one.name, one.server, one.username, one.password) for one in place.proxies]
    return group(about, table(_COLUMNS, rows)) if rows else about
