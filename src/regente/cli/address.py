"""Checks the database's address before use: the driver's errors quote it, password included."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict

from regente.engine.errors import InvalidInput

_ADVICE = (
    "the database address is invalid: write it as postgresql://user:password@host:5432/database, "
    "with an @ in the password as %40 and a / as %2F"
)


def checked_address(url: str | None) -> str | None:
    """The address, if it is valid; None or an empty one means the embedded server."""
    if not url:
        return None
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise InvalidInput(_ADVICE, code="INVALID_ADDRESS") from None
    port = str(parts.get("port", "0")).replace(",", "")
    shown = (str(parts.get(name, "")) for name in ("host", "dbname"))
    if (port and not port.isdigit()) or any("@" in part for part in shown):
        # Part of the password was parsed as the host or the port.
        raise InvalidInput(_ADVICE, code="INVALID_ADDRESS")
    return url
