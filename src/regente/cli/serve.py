"""`regente serve`: serve the HTTP API and the console."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from regente.cli import output
from regente.cli.command import CommandContext, command
from regente.engine.errors import InvalidInput

if TYPE_CHECKING:
    from regente.api.access.keys import NewKey
    from regente.api.config import ApiConfig
    from regente.app import Regente

DEFAULT_PORT = 8080
BY = "cli"


def add_to(root: typer.Typer) -> None:
    command(root, "serve", example="regente serve --port 8080", fast_loop=True)(serve)


async def serve(
    context: CommandContext,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 picks a free one.")
    ] = DEFAULT_PORT,
    path_prefix: Annotated[
        str, typer.Option(metavar="PATH", help="Path prefix behind a reverse proxy, like /regente.")
    ] = "",
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Public URL, for sign-in links.")
    ] = None,
    sign_in: Annotated[
        bool, typer.Option("--sign-in", help="Print an admin's sign-in link at every start.")
    ] = False,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Every request is an admin's; loopback only.")
    ] = False,
) -> None:
    """Serve the HTTP API, its documentation (/docs) and the console until SIGTERM or Ctrl-C.

    The first start creates an admin key and prints it, once, with a one-time sign-in link. Later:
    regente keys.
    """
    # Imported here: the web framework is slow to import.
    from regente.api.app import create_app
    from regente.asgi.server import serve_until_stopped
    from regente.cli.demo.process import DemoSubprocess

    config = _config(host, path_prefix, no_auth)
    async with context.full_app() as app:
        first, token = (None, None) if no_auth else await _credentials(app, config, sign_in)
        served = create_app(app, config)
        served.state.demo = DemoSubprocess(context.settings)
        await serve_until_stopped(
            served,
            host,
            port,
            lambda url: _announce(context, public_url or url + path_prefix, first, token),
            before_stop=served.state.feed.close,
        )


def _config(host: str, path_prefix: str, no_auth: bool) -> ApiConfig:
    from regente.api.config import ApiConfig

    if no_auth and not is_loopback(host):
        raise InvalidInput(f"--no-auth is only allowed on the loopback interface, not on {host}")
    try:
        return ApiConfig(authentication=not no_auth, path_prefix=path_prefix.rstrip("/"))
    except ValueError as error:
        raise InvalidInput(str(error)) from None


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def _credentials(
    app: Regente, config: ApiConfig, every_time: bool
) -> tuple[NewKey | None, str | None]:
    """The first key, if this is the first start, and the token of the sign-in link, if any."""
    from regente.api.access.keys import ApiKeys
    from regente.api.access.sessions import ConsoleSessions
    from regente.api.queries import LimitedDatabase

    database = LimitedDatabase(app.database)
    api_keys = ApiKeys(database)
    first = await api_keys.first()
    if first is None and not every_time:
        return None, None
    key_id = first.id if first else await api_keys.any_admin()
    sessions = ConsoleSessions(
        database, session_hours=config.session_hours, sign_in_minutes=config.sign_in_minutes
    )
    return first, (await sessions.new_link(key_id, by="start")).token


def _announce(context: CommandContext, url: str, first: NewKey | None, token: str | None) -> None:
    document = {
        "url": url,
        "docs": f"{url}/docs",
        "sign_in": sign_in_url(url, token) if token else None,
        "api_key": first.secret if first else None,
    }
    if context.json:
        output.write_json_line(
            {name: value for name, value in document.items() if value is not None}
        )
        return
    output.show(output.facts([(name.replace("_", " "), value) for name, value in document.items()]))
    if first:
        output.note(
            "The link works once. This admin key is shown only once: keep it, "
            "or create others with: regente keys create"
        )
    elif token is None:
        output.note("To sign in: regente keys link")


def sign_in_url(base: str, token: str) -> str:
    """The sign-in URL; the token is in its fragment, which browsers do not send to servers."""
    parts = urlsplit(base)
    reachable = base.replace("//0.0.0.0", "//127.0.0.1", 1) if parts.hostname == "0.0.0.0" else base  # noqa: S104
    return f"{reachable}/sign-in#token={token}"
