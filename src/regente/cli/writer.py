"""`regente writer`: serve the reference writer."""

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
    context: CommandContext,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 picks a free one.")
    ] = 8201,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCHEMA.TABLE", help=f"Table to write to. May be repeated. [default: {_ADS}]"
        ),
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Read from private and loopback addresses.")
    ] = False,
    create_ads: Annotated[
        bool, typer.Option("--create-ads", help=f"Create {_ADS} if it is missing.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, max=64, help="Concurrent jobs; further ones wait.")
    ] = 4,
    lease_seconds: Annotated[
        float,
        typer.Option(
            min=0.5,
            max=3600,
            help="Seconds without a heartbeat until another writer takes its jobs.",
        ),
    ] = 20.0,
) -> None:
    """Serve the reference writer, which stores results in PostgreSQL, until SIGTERM or Ctrl-C.

    Writes to --database-url, else REGENTE_WRITER_DATABASE_URL, else REGENTE_DATABASE_URL, else the
    embedded PostgreSQL. Clients send REGENTE_WRITER_API_KEY as x-api-key; without that variable a
    key is created and shown once. Unfinished jobs continue at the next start.
    """
    # Imported here: the web framework is slow to import.
    from regente.asgi.server import serve_until_stopped
    from regente.services.writer import WriterConfig, create_app, prepare_database

    given = os.environ.get(KEY_VARIABLE)
    made = None if given else secrets.token_urlsafe(32)
    async with server(_with_writer_address(context)) as found:
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
            create_app(config), host, port, lambda url: _announce(context, url, made)
        )


def _with_writer_address(context: CommandContext) -> CommandContext:
    """The writer's variable overrides the engine's; the option overrides both."""
    own = os.environ.get(URL_VARIABLE)
    if not own or context.settings.database_url != os.environ.get("REGENTE_DATABASE_URL"):
        return context
    settings = context.settings.model_copy(update={"database_url": checked_address(own)})
    return CommandContext(context.json, settings, context.log_level, context.log_format)


def _announce(context: CommandContext, url: str, made_key: str | None) -> None:
    document = {"url": url, "api_key": made_key}
    if context.json:
        output.write_json_line(
            {name: value for name, value in document.items() if value is not None}
        )
    else:
        output.show(
            output.facts([(name.replace("_", " "), value) for name, value in document.items()])
        )
