"""`regente fleet …`: manage workers, proxies and writers."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regente.cli.author import BY
from regente.cli.command import CommandContext, command
from regente.cli.inputs import YesOption, confirm
from regente.cli.output import Column, plain, status_text, table, when, word
from regente.engine.errors import InvalidInput
from regente.fleet.health import TestResult, check_member
from regente.fleet.models import KINDS, Kind
from regente.fleet.read_models import FleetMember

if TYPE_CHECKING:
    from rich.console import RenderableType

    from regente.fleet.registry import Fleet

fleet = typer.Typer(
    name="fleet",
    help="Add, test, activate and deactivate workers, proxies and writers.",
    no_args_is_help=True,
)
add = typer.Typer(name="add", help="Add a worker, a proxy or a writer.", no_args_is_help=True)
fleet.add_typer(add)
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

_TEST_COLUMNS = (word("KIND"), word("NAME"), word("TEST"), word("TOOK"), Column("RESULT"))

MemberArgument = Annotated[
    str, typer.Argument(metavar="MEMBER", help="The member's id or name.", show_default=False)
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The member's name.", show_default=False)
]
UrlArgument = Annotated[
    str,
    typer.Argument(metavar="URL", help="The base URL of the worker or writer.", show_default=False),
]
_SECRET_HELP = f"Read from {SECRET_VARIABLE}, or from stdin with -."


@command(fleet, "list", example="regente fleet list --kind proxy")
async def list_members(
    context: CommandContext,
    kind: Annotated[str | None, typer.Option(help=f"One of {', '.join(KINDS)}.")] = None,
) -> None:
    """List workers, proxies and writers, without their secrets."""
    async with context.app("missions") as app:
        found = await app.fleet.members(_kind(kind) if kind else None)
    nothing = "The fleet is empty. Add to it with: regente fleet add worker|proxy|writer"
    document = [_document(member) for member in found]
    context.answer(document, lambda: table(_COLUMNS, map(_row, found)) if found else nothing)


@command(
    add,
    "worker",
    audited="fleet.add_worker",
    example="regente fleet add worker w1 https://w1.example.com --storage s3.example.com --key -",
)
async def add_worker(
    context: CommandContext,
    name: NameArgument,
    url: UrlArgument,
    storage: Annotated[
        str,
        typer.Option(
            "--storage", metavar="DOMAIN", help="Domain of its results.", show_default=False
        ),
    ],
    secret: Annotated[
        str | None, typer.Option("--key", metavar="-", help=f"Its API key. {_SECRET_HELP}")
    ] = None,
) -> None:
    """Add a worker. Its API key is encrypted at rest."""
    key = _secret(secret, "API key")
    async with context.app("missions") as app:
        member_id = await app.fleet.add_worker(name, url, key, storage, by=BY)
    context.answer(
        {"id": member_id},
        lambda: f"Added worker {name} ({member_id}). Test it with: regente fleet test {name}",
    )


@command(
    add,
    "proxy",
    audited="fleet.add_proxy",
    example=f"{SECRET_VARIABLE}=… regente fleet add proxy br-1 proxy.example.com --port 8080 "
    "--username u",
)
async def add_proxy(
    context: CommandContext,
    name: NameArgument,
    host: Annotated[
        str,
        typer.Argument(
            metavar="HOST", help="The proxy's host; with a scheme unless http.", show_default=False
        ),
    ],
    port: Annotated[int | None, typer.Option(min=1, max=65_535, help="The proxy's port.")] = None,
    username: Annotated[str | None, typer.Option(help="The user name at the proxy.")] = None,
    secret: Annotated[
        str | None, typer.Option("--password", metavar="-", help=f"Its password. {_SECRET_HELP}")
    ] = None,
) -> None:
    """Add a proxy. Its password is encrypted at rest."""
    password = _secret(secret, "password") if username else None
    async with context.app("missions") as app:
        member_id = await app.fleet.add_proxy(name, host, port, username, password, by=BY)
    context.answer(
        {"id": member_id},
        lambda: f"Added proxy {name} ({member_id}). Test it with: regente fleet test {name}",
    )


@command(
    add,
    "writer",
    audited="fleet.add_writer",
    example=f"{SECRET_VARIABLE}=… regente fleet add writer main https://writer.example.com",
)
async def add_writer(
    context: CommandContext,
    name: NameArgument,
    url: UrlArgument,
    secret: Annotated[
        str | None, typer.Option("--key", metavar="-", help=f"Its API key. {_SECRET_HELP}")
    ] = None,
) -> None:
    """Add a writer. Its API key is encrypted at rest."""
    key = _secret(secret, "API key")
    async with context.app("missions") as app:
        member_id = await app.fleet.add_writer(name, url, key, by=BY)
    context.answer(
        {"id": member_id},
        lambda: f"Added writer {name} ({member_id}). Test it with: regente fleet test {name}",
    )


@command(fleet, "test", audited="fleet.test", example="regente fleet test w1")
async def check(
    context: CommandContext,
    members: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MEMBER]...", help="Ids or names. [default: all active members]"),
    ] = None,
) -> None:
    """Test that members of the fleet answer and accept their credentials."""
    async with context.app("missions") as app:
        chosen = await _members(app.fleet, members or [])
        tested = [(one, await check_member(app.fleet, one.kind, one.id)) for one in chosen]
    document = [
        {"kind": m.kind, "id": m.id, "name": m.name, "ok": r.ok, "message": r.message}
        for m, r in tested
    ]
    rows = [_result_row(member, result) for member, result in tested]
    context.answer(
        document, lambda: table(_TEST_COLUMNS, rows) if rows else "No active member to test."
    )
    if not all(result.ok for _, result in tested):
        raise typer.Exit(1)


async def _members(registry: Fleet, references: list[str]) -> list[FleetMember]:
    """The members with these ids or names; without any, all active ones."""
    found = [await registry.find(reference) for reference in references]
    members = {member.id: member for member in await registry.members()}
    if not found:
        return [member for member in members.values() if member.active]
    return [members[member_id] for _, member_id in found]


def _result_row(member: FleetMember, result: TestResult) -> tuple[RenderableType, ...]:
    status = status_text("ok" if result.ok else "wrong")
    return member.kind, member.name, status, f"{result.milliseconds:.0f} ms", result.message


@command(fleet, "activate", audited="fleet.activate", example="regente fleet activate br-1")
async def activate(call: CommandContext, member: MemberArgument) -> None:
    """Switch a member on. A proxy is active again, with its failures reset to 0."""
    await _switch(call, member, active=True)


@command(fleet, "deactivate", audited="fleet.deactivate", example="regente fleet deactivate w1")
async def deactivate(context: CommandContext, member: MemberArgument) -> None:
    """Deactivate a member. Its running work may finish."""
    await _switch(context, member, active=False)


@command(fleet, "remove", audited="fleet.remove", example="regente fleet remove br-1")
async def remove(context: CommandContext, member: MemberArgument, yes: YesOption = False) -> None:
    """Remove a member that is not in use, and its secret. Its history goes on naming it."""
    confirm(f"Remove {member} from the fleet?", yes=yes, as_json=context.json)
    async with context.app("missions") as app:
        kind, member_id = await app.fleet.find(member)
        await app.fleet.remove(kind, member_id, by=BY)
    context.answer({"removed": member_id}, lambda: f"Removed {kind} {member}.")


async def _switch(context: CommandContext, member: str, *, active: bool) -> None:
    async with context.app("missions") as app:
        kind, member_id = await app.fleet.find(member)
        await app.fleet.set_active(kind, member_id, active, by=BY)
    context.answer(
        {"id": member_id, "active": active},
        lambda: f"{kind.capitalize()} {member} is {'active' if active else 'inactive'}.",
    )


def _secret(given: str | None, what: str) -> str:
    if given == "-":
        return sys.stdin.readline().rstrip("\n")
    if given is not None:
        raise InvalidInput(
            f"the {what} is not accepted as an argument: other users of this machine could see it. "
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


def _document(member: FleetMember) -> dict[str, Any]:
    return {
        "kind": member.kind,
        "id": member.id,
        "name": member.name,
        "address": member.address,
        "active": member.active,
        "status": member.status,
        "last_test_at": member.last_test_at,
        "last_test_ok": member.last_test_ok,
        "last_test_message": member.last_test_message,
        "details": member.details,
    }


def _row(member: FleetMember) -> tuple[RenderableType, ...]:
    verdict = "ok" if member.last_test_ok else "wrong"
    tested = "never" if member.last_test_at is None else f"{verdict} {when(member.last_test_at)}"
    details = ", ".join(f"{name} {value}" for name, value in _shown_details(member.details))
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


def _shown_details(details: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, value)
        for name, value in details.items()
        if value not in (0, "") and name != "storage_domain"
    ]
