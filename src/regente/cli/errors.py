"""Maps every error to a stable code, a one-line message and an exit code."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
import typer

from regente.engine.errors import InvalidInput, RegenteError

USAGE_EXIT = 2
FAILURE_EXIT = 1


@dataclass(frozen=True, slots=True)
class CommandError:
    code: str
    message: str
    exit_code: int


def describe(error: Exception) -> CommandError | None:
    """The error's code, message and exit code; None for an unexpected one, shown with its stack."""
    if isinstance(error, typer.TyperException):
        return CommandError("USAGE", _with_hint(error), error.exit_code)
    if isinstance(error, InvalidInput):
        return CommandError(error.code, error.message, USAGE_EXIT)
    if isinstance(error, RegenteError):
        return CommandError(error.code, error.message, FAILURE_EXIT)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return CommandError(
            "DATABASE_UNAVAILABLE", f"PostgreSQL is unavailable: {_first_line(error)}", FAILURE_EXIT
        )
    if isinstance(error, psycopg.DataError):
        return CommandError(
            "INVALID_INPUT", f"PostgreSQL rejects a value: {_first_line(error)}", USAGE_EXIT
        )
    if isinstance(error, psycopg.Error):
        return CommandError("DATABASE", f"PostgreSQL error: {_first_line(error)}", FAILURE_EXIT)
    if isinstance(error, typer.Abort):
        return CommandError("ABORTED", "aborted: nothing changed", FAILURE_EXIT)
    if isinstance(error, OSError):
        return CommandError("SYSTEM", str(error), FAILURE_EXIT)
    return None


def _with_hint(error: typer.TyperException) -> str:
    """The message and how to get help; empty when a group without a command has shown its help."""
    context = getattr(error, "ctx", None)
    message = " ".join(error.format_message().split())
    if context is None or not message:
        return message
    return f"{message.rstrip('.')}. Try: {context.command_path} --help"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
