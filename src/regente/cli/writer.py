"""`regente writer`: the reference Writer service."""

from __future__ import annotations

import os
import secrets
from typing import Annotated

import typer

from regente.cli import output
from regente.cli.address import checked_address
from regente.cli.command import CommandContext, command
from regente.cli.database import server
from regente.engine.errors import InvalidInput

KEY_VARIABLE = "REGENTE_WRITER_API_KEY"
URL_VARIABLE = "REGENTE_WRITER_DATABASE_URL"

_ADS = "public.ads"


def add_to(root: typer.Typer) -> None:
    command(
        root,
        "writer",
        example="regente writer --port 8201 --allow-private --create-ads",
        fast_loop=True,
    )(writer)


async def writer(
    call: CommandContext,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 8201,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCHEMA.TABLE", help=f"A table to write to; may be repeated. [default: {_ADS}]"
        ),
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Read from private and loopback addresses.")
    ] = False,
    create_ads: Annotated[
        bool, typer.Option("--create-ads", help=f"Make {_ADS} when it is missing.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Jobs at once; further ones wait.")] = 4,
    lease_seconds: Annotated[
        float,
        typer.Option(
            min=0.5, max=3600, help="Silent for so long, a writer loses its jobs to another."
        ),
    ] = 20.0,
) -> None:
    """Be a Writer (POST /process, GET /status/JOB, GET /health), until SIGTERM or Ctrl-C.

    Writes to --database-url, else REGENTE_WRITER_DATABASE_URL, else REGENTE_DATABASE_URL, else the
    embedded PostgreSQL. The key that callers send as x-api-key is REGENTE_WRITER_API_KEY; without
    it one is made up and printed once. Unfinished jobs are handed back on the way out and go on at
    the next start.
    """
    # The web framework is heavy: only the commands that serve pay for it.
    from regente.asgi.server import serve_until_stopped
    from regente.services.writer import WriterConfig, create_app, prepare_database

    given = os.environ.get(KEY_VARIABLE)
    made = None if given else secrets.token_urlsafe(32)
    async with server(_with_own_address(call)) as found:
        try:
            config = WriterConfig(
                database_url=found.url,
                api_key=given or made or "",
                targets=frozenset(allow or [_ADS]),
                allow_private=allow_private,
                create_ads=create_ads,
                concurrent_jobs=jobs,
                lease_seconds=lease_seconds,
            )
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        await prepare_database(config)
        await serve_until_stopped(
            create_app(config), host, port, lambda url: _announce(call, url, made)
        )


def _with_own_address(call: CommandContext) -> CommandContext:
    """The writer's variable stands before the engine's, and behind the option."""
    own = os.environ.get(URL_VARIABLE)
    if not own or call.settings.database_url != os.environ.get("REGENTE_DATABASE_URL"):
        return call
    settings = call.settings.model_copy(update={"database_url": checked_address(own)})
    return CommandContext(call.json, settings, call.log_level, call.log_format)


def _announce(call: CommandContext, url: str, made_key: str | None) -> None:
    told = {"url": url, "api_key": made_key}
    if call.json:
        output.write_json_line({name: value for name, value in told.items() if value is not None})
    else:
        output.show(output.facts([(name.replace("_", " "), value) for name, value in told.items()]))
