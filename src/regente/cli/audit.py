"""`regente audit verify`: prove that no event of the audit log is missing or altered."""

from __future__ import annotations

from typing import Annotated

import typer

from regente.api.queries import QUERIES, LimitedDatabase
from regente.cli.command import CommandContext, command
from regente.cli.output import facts
from regente.engine.errors import RegenteError
from regente.queries import Row

audit = typer.Typer(name="audit", help="The log of what operators did.", no_args_is_help=True)

SECONDS = 300.0


class AuditBroken(RegenteError):
    code = "AUDIT_BROKEN"


@command(audit, "verify", example="regente audit verify")
async def verify(
    context: CommandContext,
    kept: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="An earlier head, which must be in the chain."),
    ] = None,
) -> None:
    """Check the chain of audit events: each names the hash of the one before.

    Keep the head that this prints elsewhere, and give it at the next check: a log whose end was cut
    off together with its head, or that was rewritten, does not contain it.
    """
    async with context.app("api") as app:
        database = LimitedDatabase(app.database, SECONDS)
        found = await QUERIES.fetch_one(database, "audit_chain", kept=kept)
    assert found is not None
    if problem := problem_of(found):
        raise AuditBroken(problem)
    if kept is not None and not found["has_kept"]:
        raise AuditBroken(
            f"the kept head {kept[:64]} is not in the chain: the end was cut off, or all of it was "
            "rewritten (or retention has deleted it, if it is older than the log)"
        )
    document = {
        "checked": found["checked"],
        "first": found["floor"] + 1 if found["checked"] else None,
        "last": found["last"],
        "head": found["head_hash"],
        "unchained": found["unchained"],
    }
    context.answer(document, lambda: facts(list(document.items())))


def problem_of(chain: Row) -> str | None:
    """What is wrong with the chain, if anything."""
    if chain["altered"] is not None:
        return f"the audit event number {chain['altered']} was altered"
    if chain["gap"] is not None:
        return f"audit events before number {chain['gap']} are missing"
    last = chain["floor"] if chain["last"] is None else chain["last"]
    if last != chain["head"]:
        return f"audit events after number {last} are missing: there were {chain['head']}"
    return None
