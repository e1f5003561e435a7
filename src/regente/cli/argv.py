"""Takes secrets off the process's command line, which every user of the machine can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

API_KEY, DATABASE_URL = "--api-key", "--database-url"
VARIABLES = {
    API_KEY: ("REGENTE_CONFORMANCE_API_KEY",),
    DATABASE_URL: ("REGENTE_DATABASE_URL", "REGENTE_WRITER_DATABASE_URL"),
}
"""The variables that say the same as an option, and that only the same user can read."""
_SECRET_PARAMETERS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
"""Of a database's address."""


def hide_secrets(words: Sequence[str]) -> None:
    """If the arguments have secrets, execute the program again with these in environment
    variables."""
    kept, variables = without_secrets(words)
    if variables:
        interpreter = sys.orig_argv[1 : len(sys.orig_argv) - len(words)]
        os.execve(  # noqa: S606 - ourselves
            sys.executable, [sys.executable, *interpreter, *kept], {**os.environ, **variables}
        )


def without_secrets(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The words without options that have secrets, and the variables in their place."""
    kept: list[str] = []
    variables: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*kept, word, *rest], variables
        name, given, value = word.partition("=")
        if name in VARIABLES and not given and rest:
            value = rest[0]
        if name not in VARIABLES or not _is_secret(name, value):
            kept.append(word)
            continue
        if not given:
            rest.pop(0)
        variables |= dict.fromkeys(VARIABLES[name], value)
    return kept, variables


def _is_secret(name: str, value: str) -> bool:
    if name == API_KEY or not value:
        return bool(value)
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return not _SECRET_PARAMETERS.isdisjoint(conninfo_to_dict(value))
    except psycopg.Error:
        return True  # it may have one that is not written right
