"""`regente serve`: serve the HTTP API and the console."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from regente.cli import output
from regente.cli.command import CommandContext, command
from regente.engine.errors import InvalidInput

if TYPE_CHECKING:
    from regente.api.access.keys import NewKey
    from regente.api.config import ApiConfig
    from regente.api.oidc.config import OidcConfig
    from regente.app import Regente
    from regente.asgi.server import Ingress

DEFAULT_PORT = 8080


def _oidc_option(name: str, metavar: str, about: str) -> Any:
    return typer.Option(
        metavar=metavar,
        envvar=f"REGENTE_OIDC_{name}",
        help=about,
        rich_help_panel="Sign-in by OpenID Connect",
    )


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
        str | None,
        typer.Option(
            metavar="URL",
            envvar="REGENTE_PUBLIC_URL",
            help="How browsers reach it, for sign-in links and OpenID Connect.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate chain (PEM): serve HTTPS.", exists=True),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate's private key (PEM).", exists=True),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            envvar="REGENTE_TRUSTED_PROXIES",
            help="Address or network of a reverse proxy whose X-Forwarded-For and "
            "X-Forwarded-Proto are believed; repeatable.",
        ),
    ] = None,
    session_hours: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=24 * 365,
            metavar="HOURS",
            envvar="REGENTE_SESSION_HOURS",
            help="Hours after which a console session ends.",
        ),
    ] = 12.0,
    session_idle_minutes: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=60 * 24 * 365,
            metavar="MINUTES",
            envvar="REGENTE_SESSION_IDLE_MINUTES",
            help="Minutes without use after which a console session ends.",
        ),
    ] = 120.0,
    oidc_issuer: Annotated[
        str | None,
        _oidc_option(
            "ISSUER", "URL", "The provider's issuer: sign-in by it, besides API keys and links."
        ),
    ] = None,
    oidc_client_id: Annotated[
        str | None,
        _oidc_option(
            "CLIENT_ID",
            "ID",
            "Regente's id at the provider. Its secret, if it has one, is only taken from the "
            "variable REGENTE_OIDC_CLIENT_SECRET.",
        ),
    ] = None,
    oidc_name: Annotated[
        str, _oidc_option("NAME", "TEXT", "What the sign-in page calls the provider.")
    ] = "OpenID Connect",
    oidc_scopes: Annotated[
        str, _oidc_option("SCOPES", "TEXT", "The scopes that it asks for.")
    ] = "openid profile email",
    oidc_role_claim: Annotated[
        str,
        _oidc_option("ROLE_CLAIM", "CLAIM", "The claim with the roles, like realm_access.roles."),
    ] = "roles",
    oidc_roles: Annotated[
        str,
        _oidc_option("ROLES", "TEXT", "Which values of the claim give which role."),
    ] = "viewer=viewer;operator=operator;admin=admin",
    oidc_default_role: Annotated[
        str | None,
        _oidc_option(
            "DEFAULT_ROLE", "ROLE", "The role without such a value; without it they are refused."
        ),
    ] = None,
    oidc_name_claim: Annotated[
        str, _oidc_option("NAME_CLAIM", "CLAIM", "The claim with the name for the audit log.")
    ] = "email",
    sign_in: Annotated[
        bool, typer.Option("--sign-in", help="Print an admin's sign-in link at every start.")
    ] = False,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Serve every request as an admin; loopback only.")
    ] = False,
) -> None:
    """Serve the HTTP API, its documentation (/docs) and the console until SIGTERM or Ctrl-C.

    It also recovers the tasks of lost runners and says which batches stall.

    The first start creates an admin key and prints it, once, with a one-time sign-in link. Later:
    regente keys.
    """
    # Imported here: the web framework is slow to import.
    from regente.api.app import create_app
    from regente.asgi.server import serve_until_stopped
    from regente.cli.demo.process import DemoSubprocess

    ingress = _ingress(tls_cert, tls_key, trusted_proxy or [])
    oidc = _oidc(
        public_url,
        no_auth,
        issuer=oidc_issuer,
        client_id=oidc_client_id,
        name=oidc_name,
        scopes=oidc_scopes,
        role_claim=oidc_role_claim,
        roles=oidc_roles,
        default_role=oidc_default_role,
        name_claim=oidc_name_claim,
    )
    config = _config(
        host,
        path_prefix,
        no_auth,
        public_url,
        oidc=oidc,
        session_hours=session_hours,
        session_idle_minutes=session_idle_minutes,
    )
    async with context.full_app() as app, app.watch():
        first, token = (None, None) if no_auth else await _credentials(app, config, sign_in)
        served = create_app(app, config)
        served.state.demo = DemoSubprocess(context.settings)
        await serve_until_stopped(
            served,
            host,
            port,
            lambda url: _announce(context, public_url or url + path_prefix, first, token),
            before_stop=served.state.feed.close,
            ingress=ingress,
        )


def _ingress(tls_cert: Path | None, tls_key: Path | None, proxies: list[str]) -> Ingress:
    from regente.asgi.server import Ingress

    if (tls_cert is None) != (tls_key is None):
        raise InvalidInput("--tls-cert and --tls-key belong together")
    proxies = [one for given in proxies for one in given.replace(",", " ").split()]
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            raise InvalidInput(
                f"--trusted-proxy takes an address or a network such as 10.0.0.0/8, not {proxy!r}"
            ) from None
    return Ingress(tuple(proxies), tls_cert, tls_key)


def _oidc(
    public_url: str | None,
    no_auth: bool,
    *,
    issuer: str | None,
    client_id: str | None,
    roles: str,
    default_role: str | None,
    **others: str,
) -> OidcConfig | None:
    from regente.api.access.principal import Role
    from regente.api.oidc.config import OidcConfig, parse_roles

    if not issuer and not client_id:
        return None
    if not issuer or not client_id or not public_url:
        raise InvalidInput(
            "sign-in by OpenID Connect needs --oidc-issuer, --oidc-client-id and --public-url"
        )
    if no_auth:
        raise InvalidInput("--no-auth and sign-in by OpenID Connect exclude each other")
    if default_role and default_role not in list(Role):
        raise InvalidInput(f"{default_role!r} is not a role; known: {', '.join(Role)}")
    try:
        return OidcConfig(
            issuer,
            client_id,
            public_url.rstrip("/"),
            client_secret=os.environ.get("REGENTE_OIDC_CLIENT_SECRET") or None,
            roles=parse_roles(roles),
            default_role=Role(default_role) if default_role else None,
            **others,
        )
    except ValueError as error:
        raise InvalidInput(f"sign-in by OpenID Connect: {error}") from None


def _config(
    host: str, path_prefix: str, no_auth: bool, public_url: str | None = None, **others: Any
) -> ApiConfig:
    from regente.api.config import ApiConfig

    if no_auth and not is_loopback(host):
        raise InvalidInput(f"--no-auth is only allowed on the loopback interface, not on {host}")
    try:
        return ApiConfig(
            authentication=not no_auth,
            path_prefix=path_prefix.rstrip("/"),
            public_url=public_url.rstrip("/") if public_url else None,
            **others,
        )
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
    sessions = ConsoleSessions(database, config)
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
    reachable = base
    if parts.hostname == "0.0.0.0":  # noqa: S104 - a comparison
        reachable = base.replace("//0.0.0.0", "//127.0.0.1", 1)
    return f"{reachable}/sign-in#token={token}"
