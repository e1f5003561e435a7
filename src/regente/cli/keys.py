"""`regente keys …`: manage the API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.access.sessions import ConsoleSessions
from regente.api.config import ApiConfig
from regente.api.queries import QUERIES, LimitedDatabase
from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.inputs import YesOption, confirm, parse_time
from regente.cli.output import Column, facts, status_text, table, to_json, when, word
from regente.cli.serve import DEFAULT_PORT, sign_in_url
from regente.engine.errors import InvalidInput
from regente.pipelines.builtins import switched_on
from regente.queries import Row

if TYPE_CHECKING:
    from rich.console import RenderableType

keys = typer.Typer(name="keys", help="Manage API keys and sign-in links.", no_args_is_help=True)
_COLUMNS = (
    word("ID"),
    Column("NAME"),
    word("PREFIX"),
    word("ROLE"),
    Column("SCOPES"),
    word("STATUS"),
    word("LAST USED"),
    word("EXPIRES"),
    Column("CREATED BY"),
)
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The key's id or name.", show_default=False)
]


@command(keys, "list", example="regente keys list")
async def list_keys(context: CommandContext) -> None:
    """List the API keys, without their secrets."""
    async with context.app("api") as app:
        found = await ApiKeys(LimitedDatabase(app.database)).all()
    nothing = "No API keys yet: the first start of `regente serve` creates one."
    context.answer(found, lambda: table(_COLUMNS, map(_row, found)) if found else nothing)


@command(keys, "create", example="regente keys create ana --role operator")
async def create(
    context: CommandContext,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The key's name.", show_default=False)
    ],
    role: Annotated[
        str,
        typer.Option(help="viewer reads, operator acts, admin changes fleet, settings and keys."),
    ] = "viewer",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG",
            help="A resource that it reaches, like missions or metrics; repeatable. Without any "
            "it reaches all.",
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it expires, like 2030-01-31T18:00:00Z.")
    ] = None,
) -> None:
    """Create an API key. It is shown only once."""
    from regente.api.scopes import checked_scopes  # the web framework is slow to import

    expires_at = parse_time(expires)
    scopes = checked_scopes(scope or [], switched_on(context.settings.builtins))
    async with context.app("api") as app:
        database = LimitedDatabase(app.database)
        made = await ApiKeys(database).create(
            name, _role(role), by=BY, expires_at=expires_at, scopes=scopes
        )
        after = {"name": name, "role": role, "expires_at": expires_at, "scopes": scopes}
        await _note(database, "keys.create", made.id, {"after": after})
    document = {
        "id": made.id,
        "name": made.name,
        "role": made.role.value,
        "scopes": scopes,
        "api_key": made.secret,
    }
    shown = {**document, "scopes": ", ".join(scopes or ["all"])}
    context.answer(
        document,
        lambda: facts([(part.replace("_", " "), str(value)) for part, value in shown.items()]),
    )


@command(keys, "revoke", example="regente keys revoke ana")
async def revoke(context: CommandContext, key: KeyArgument, yes: YesOption = False) -> None:
    """Revoke an API key and its console sessions."""
    confirm(f"Revoke the key {key}?", yes=yes, as_json=context.json)
    async with context.app("api") as app:
        database = LimitedDatabase(app.database)
        api_keys = ApiKeys(database)
        key_id = await api_keys.find(key)
        before = await api_keys.revoke(key_id, by=BY)
        await _note(
            database,
            "keys.revoke",
            key_id,
            {"before": {"name": before["name"], "role": before["role"]}},
        )
    context.answer({"revoked": key_id}, lambda: f"Revoked {key}.")


@command(keys, "link", example="regente keys link ana")
async def link(
    context: CommandContext,
    key: Annotated[
        str | None,
        typer.Argument(metavar="[KEY]", help="The key's id or name. [default: any admin's key]"),
    ] = None,
    url: Annotated[
        str,
        typer.Option(
            "--url", metavar="URL", envvar="REGENTE_PUBLIC_URL", help="The API's base URL."
        ),
    ] = f"http://127.0.0.1:{DEFAULT_PORT}",
) -> None:
    """Create a link that signs in to the console, valid once, for half an hour."""
    async with context.app("api") as app:
        database = LimitedDatabase(app.database)
        api_keys = ApiKeys(database)
        key_id = await api_keys.find(key) if key else await api_keys.any_admin()
        made = await ConsoleSessions(database, ApiConfig()).new_link(key_id, by=BY)
        await _note(database, "keys.sign_in_link", key_id, {})
    address = sign_in_url(url.rstrip("/"), made.token)
    context.answer({"sign_in": address, "expires_at": made.expires_at}, lambda: address)


async def _note(database: LimitedDatabase, action: str, key_id: str, more: dict[str, Any]) -> None:
    """Write the action to the audit log, as the API does."""
    await QUERIES.execute(
        database,
        "log_operator",
        details=to_json({"by": BY, "action": action, "target": {"key": key_id}, **more}),
    )


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a role; known: {', '.join(Role)}") from None


def _row(key: Row) -> tuple[RenderableType, ...]:
    status = status_text("ok") if key["status"] == "valid" else status_text(key["status"])
    return (
        key["id"],
        key["name"],
        f"{key['prefix']}…",
        key["role"],
        ", ".join(key["scopes"] or ["all"]),
        status,
        when(key["last_used_at"]),
        when(key["expires_at"]),
        key["created_by"],
    )
