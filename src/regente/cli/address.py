"""Checks the database's address before anybody tries it: an error of the driver would quote it, and
the password with it."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict

from regente.engine.errors import InvalidInput

_ADVICE = (
    "the database address cannot be read: write it as "
    "postgresql://user:password@host:5432/database, "
    "with an @ in the password as %40 and a / as %2F"
)


def checked_address(url: str | None) -> str | None:
    """The address as it is; none (or an empty one) stands for the embedded server."""
    if not url:
        return None
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise InvalidInput(_ADVICE, code="INVALID_ADDRESS") from None
    port = str(parts.get("port", "0")).replace(",", "")
    shown = (str(parts.get(name, "")) for name in ("host", "dbname"))
    if (port and not port.isdigit()) or any("@" in part for part in shown):
        # A part of the password then stands where the host or the port should.
        raise InvalidInput(_ADVICE, code="INVALID_ADDRESS")
    return url
