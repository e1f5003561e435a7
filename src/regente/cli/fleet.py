"""`regente fleet …`: workers, proxies and writers."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli.command import CommandContext, command
from regente.cli.inputs import YesOption, confirm
from regente.cli.output import Column, plain, status_text, table, when, word
from regente.engine.errors import InvalidInput
from regente.fleet.health import check_member
from regente.fleet.models import KINDS, FleetMember, Kind

if TYPE_CHECKING:
    from rich.console import RenderableType

fleet = typer.Typer(
    name="fleet",
    help="Workers, proxies and writers: add, test, switch on and off.",
    no_args_is_help=True,
)
add = typer.Typer(name="add", help="Add a worker, a proxy or a writer.", no_args_is_help=True)
fleet.add_typer(add)

BY = "cli"
SECRET_VARIABLE = "REGENTE_FLEET_SECRET"  # noqa: S105 - the name of a variable
_COLUMNS = (
    word("KIND"),
    word("ID"),
    Column("NAME"),
    Column("ADDRESS"),
    word("ACTIVE"),
    word("STATUS"),
    word("TESTED"),
    Column("DETAILS"),
)

MemberArgument = Annotated[
    str, typer.Argument(metavar="MEMBER", help="Its id or name.", show_default=False)
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="What people call it.", show_default=False)
]
UrlArgument = Annotated[
    str, typer.Argument(metavar="URL", help="Where it answers.", show_default=False)
]
_SECRET_HELP = (
    f"Read from {SECRET_VARIABLE}, or from stdin with -; an argument would be seen by everybody."
)


@command(fleet, "list", example="regente fleet list --kind proxy")
async def list_members(
    call: CommandContext,
    kind: Annotated[str | None, typer.Option(help=f"Of {', '.join(KINDS)}.")] = None,
) -> None:
    """List the fleet. Secrets are never shown."""
    async with call.app("missions") as app:
        found = await app.fleet.members(_kind(kind) if kind else None)
    nothing = "The fleet is empty. Add to it with: regente fleet add worker|proxy|writer"
    call.answer(found, lambda: table(_COLUMNS, map(_row, found)) if found else nothing)


@command(
    add,
    "worker",
    example="regente fleet add worker w1 https://w1.example.com --storage s3.example.com --key -",
)
async def add_worker(
    call: CommandContext,
    name: NameArgument,
    url: UrlArgument,
    storage: Annotated[
        str,
        typer.Option(
            "--storage", metavar="DOMAIN", help="Where its results lie.", show_default=False
        ),
    ],
    secret: Annotated[
        str | None, typer.Option("--key", metavar="-", help=f"Its api key. {_SECRET_HELP}")
    ] = None,
) -> None:
    """Add a worker. Its api key is encrypted at rest."""
    key = _secret(secret, "api key")
    async with call.app("missions") as app:
        member_id = await app.fleet.add_worker(name, url, key, storage, by=BY)
    call.answer(
        {"id": member_id},
        lambda: f"Added worker {name} ({member_id}). Test it with: regente fleet test {name}",
    )


@command(
    add,
    "proxy",
    example=f"{SECRET_VARIABLE}=… regente fleet add proxy br-1 proxy.example.com --port 8080 "
    "--username u",
)
async def add_proxy(
    call: CommandContext,
    name: NameArgument,
    host: Annotated[
        str,
        typer.Argument(metavar="HOST", help="With a scheme if it is not http.", show_default=False),
    ],
    port: Annotated[int | None, typer.Option(min=1, max=65_535, help="Its port.")] = None,
    username: Annotated[str | None, typer.Option(help="Its user name.")] = None,
    secret: Annotated[
        str | None, typer.Option("--password", metavar="-", help=f"Its password. {_SECRET_HELP}")
    ] = None,
) -> None:
    """Add a proxy. Its password is encrypted at rest."""
    password = _secret(secret, "password") if username else None
    async with call.app("missions") as app:
        member_id = await app.fleet.add_proxy(name, host, port, username, password, by=BY)
    call.answer(
        {"id": member_id},
        lambda: f"Added proxy {name} ({member_id}). Test it with: regente fleet test {name}",
    )


@command(
    add,
    "writer",
    example=f"{SECRET_VARIABLE}=… regente fleet add writer main https://writer.example.com",
)
async def add_writer(
    call: CommandContext,
    name: NameArgument,
    url: UrlArgument,
    secret: Annotated[
        str | None, typer.Option("--key", metavar="-", help=f"Its api key. {_SECRET_HELP}")
    ] = None,
) -> None:
    """Add a writer. Its api key is encrypted at rest."""
    key = _secret(secret, "api key")
    async with call.app("missions") as app:
        member_id = await app.fleet.add_writer(name, url, key, by=BY)
    call.answer(
        {"id": member_id},
        lambda: f"Added writer {name} ({member_id}). Test it with: regente fleet test {name}",
    )


@command(fleet, "test", example="regente fleet test w1")
async def check(
    call: CommandContext,
    members: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MEMBER]...", help="Ids or names; none: everyone."),
    ] = None,
) -> None:
    """Ask members of the fleet whether they are there and let us in."""
    async with call.app("missions") as app:
        chosen = [await app.fleet.find(which) for which in members or []]
        everyone = {member.id: member for member in await app.fleet.members()}
        wanted = chosen or [
            (member.kind, member.id) for member in everyone.values() if member.active
        ]
        verdicts = [
            (everyone[member_id], await check_member(app.fleet, kind, member_id))
            for kind, member_id in wanted
        ]
    rows = [
        (
            member.kind,
            member.name,
            status_text("ok" if verdict.ok else "wrong"),
            f"{verdict.milliseconds:.0f} ms",
            verdict.message,
        )
        for member, verdict in verdicts
    ]
    columns = (word("KIND"), word("NAME"), word("TEST"), word("TOOK"), Column("WHAT IT SAID"))
    document = [
        {"kind": m.kind, "id": m.id, "name": m.name, "ok": v.ok, "message": v.message}
        for m, v in verdicts
    ]
    call.answer(document, lambda: table(columns, rows) if rows else "Nobody to test.")
    if not all(verdict.ok for _, verdict in verdicts):
        raise typer.Exit(1)


@command(fleet, "activate", example="regente fleet activate br-1")
async def activate(call: CommandContext, member: MemberArgument) -> None:
    """Switch a member on. A proxy is active again, with its failures reset to 0."""
    await _switch(call, member, active=True)


@command(fleet, "deactivate", example="regente fleet deactivate w1")
async def deactivate(call: CommandContext, member: MemberArgument) -> None:
    """Switch a member off. What it is at may finish."""
    await _switch(call, member, active=False)


@command(fleet, "remove", example="regente fleet remove br-1")
async def remove(call: CommandContext, member: MemberArgument, yes: YesOption = False) -> None:
    """Take a member that is not in use out of the fleet."""
    confirm(f"Remove {member} from the fleet?", yes=yes, as_json=call.json)
    async with call.app("missions") as app:
        kind, member_id = await app.fleet.find(member)
        await app.fleet.remove(kind, member_id, by=BY)
    call.answer({"removed": member_id}, lambda: f"Removed {kind} {member}.")


async def _switch(call: CommandContext, member: str, *, active: bool) -> None:
    async with call.app("missions") as app:
        kind, member_id = await app.fleet.find(member)
        await app.fleet.set_active(kind, member_id, active, by=BY)
    call.answer(
        {"id": member_id, "active": active},
        lambda: f"{kind.capitalize()} {member} is {'on' if active else 'off'}.",
    )


def _secret(given: str | None, what: str) -> str:
    if given == "-":
        return sys.stdin.readline().rstrip("\n")
    if given is not None:
        raise InvalidInput(
            f"the {what} is not taken from the command line, where everybody sees it. "
            f"{_SECRET_HELP}"
        )
    value = os.environ.get(SECRET_VARIABLE)
    if not value:
        raise InvalidInput(f"the {what} is missing. {_SECRET_HELP}")
    return value


def _kind(text: str) -> Kind:
    if text not in KINDS:
        raise InvalidInput(f"{text!r} is not a kind of member; known: {', '.join(KINDS)}")
    return text


def _row(member: FleetMember) -> tuple[RenderableType, ...]:
    verdict = "ok" if member.last_test_ok else "wrong"
    tested = "never" if member.last_test_at is None else f"{verdict} {when(member.last_test_at)}"
    details = ", ".join(f"{name} {value}" for name, value in _telling(member.details))
    active = status_text("ok") if member.active else plain("off")
    return (
        member.kind,
        member.id,
        member.name,
        member.address,
        active,
        status_text(member.status),
        tested,
        details,
    )


def _telling(details: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, value)
        for name, value in details.items()
        if value not in (0, "") and name != "storage_domain"
    ]
