"""Parses and checks command-line input: JSON, times, batches, confirmations."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from regente.engine.errors import InvalidInput

MAX_ID = 2**63 - 1
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

IdArgument = Annotated[
    int, typer.Argument(metavar="ID", min=1, max=MAX_ID, help="The task's id.", show_default=False)
]
IdsArgument = Annotated[
    list[int],
    typer.Argument(
        metavar="ID...", min=1, max=MAX_ID, help="Ids of one or more tasks.", show_default=False
    ),
]
BatchArgument = Annotated[
    str, typer.Argument(metavar="BATCH", help="The batch's id or name.", show_default=False)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000, help="Most rows to show.")]


def batch_reference(text: str) -> int | str:
    """An id, if the text is only digits, else a name."""
    return int(text) if text.isascii() and text.isdigit() and int(text) <= MAX_ID else text


def parse_json(text: str, *, what: str = "the result is") -> Any:
    """Parse any JSON value; `-` reads it from stdin."""
    source = sys.stdin.read() if text == "-" else text
    try:
        return json.loads(source)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(
            f"{what} not valid JSON: {error.msg} at {place}", code="INVALID_JSON"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} not valid JSON: {error}", code="INVALID_JSON") from None


def parse_args(text: str | None) -> Any:
    """Parse a JSON object; `-` reads it from stdin."""
    if text is None:
        return None
    value = parse_json(text, what="the arguments are")
    if not isinstance(value, dict):
        raise InvalidInput(
            "the arguments must be a JSON object, like '{\"product\": 7}'", code="INVALID_ARGS"
        )
    return value


def parse_time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r} is not a time: write it like 2030-01-31T18:00:00+00:00"
        ) from None
    if moment.tzinfo is None:
        raise InvalidInput(f"{text!r} has no time zone: write it like 2030-01-31T18:00:00Z")
    return moment


def parse_unique(text: str) -> Any:
    """For how long a key is taken: a word, or a time like 24h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    return float(found[1]) * UNIT_SECONDS[found[2]] if found else text


def confirm(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask on the terminal and abort unless confirmed. Without a terminal `--yes` is required."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise InvalidInput(
            f"{question} There is no terminal to confirm on: add --yes.", code="CONFIRMATION_NEEDED"
        )
    typer.confirm(question, abort=True, err=True)


def split_names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidInput("--pipelines is empty: give names as --pipelines first,second")
    return names


def unique(values: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(values))
