"""`regente doctor`: check the database for problems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regente.cli.command import CommandContext, command
from regente.cli.database import server
from regente.cli.errors import FAILURE_EXIT
from regente.cli.output import Column, plain, status_text, styled, table, word
from regente.components import every_component
from regente.fleet.secrets import KEY_FILE
from regente.postgres.doctor import Finding, examine
from regente.postgres.embedded import default_data_dir

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = (word("CHECK"), word("LEVEL"), Column("FINDING"))


def add_to(root: typer.Typer) -> None:
    command(root, "doctor", example="regente doctor --json")(doctor)


async def doctor(context: CommandContext) -> None:
    """Check the database: version, pooler, clock, unsafe settings, vacuum, schema. Changes nothing.

    Exits with 1 when it finds an error.
    """
    async with server(context) as found:
        findings = await examine(found.url, data_dir=found.data_dir, components=every_component())
    findings += check_key_file(context.settings.data_dir or default_data_dir())
    context.answer(findings, lambda: table(_COLUMNS, map(_row, findings)))
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(FAILURE_EXIT)


def check_key_file(folder: Path) -> list[Finding]:
    """Whether others may read the key of the fleet's secrets, if it is in a file."""
    path = folder / KEY_FILE
    if not path.exists():
        return []
    mode = path.stat().st_mode & 0o777
    if not mode & 0o077:
        return [Finding("key_file", "ok", "Only its owner reads the key file of the fleet.")]
    return [
        Finding(
            "key_file",
            "error",
            f"Other users may read the key file of the fleet: {path} has the mode {mode:o}.",
            f"chmod 600 {path}, then `regente secrets rotate --new-key`.",
            {"path": str(path), "mode": f"{mode:o}"},
        )
    ]


def _row(finding: Finding) -> tuple[RenderableType, ...]:
    text = styled(" ".join(finding.summary.split()))
    if finding.advice:
        text.append(f" → {finding.advice}", style="bold")
    return (
        finding.check,
        status_text(finding.level),
        plain(text.plain) if not finding.advice else text,
    )
