"""Connections go to a server that can write, and leave one that no longer can.

After a failover the former primary comes back as a standby, and a name or an address may lead to a
standby. Regente writes all the time: such a server is as good as away.
"""

from __future__ import annotations

from typing import Any, NoReturn

import psycopg
from psycopg import AsyncConnection, Connection, errors
from psycopg.conninfo import conninfo_to_dict

CONNECT_SECONDS = 10
CONNECT_SECONDS_EACH = 4
"""With several hosts in the address: those that do not answer must not use up the lease."""

_READ_ONLY = ("in_hot_standby", "default_transaction_read_only")


class ServerReadOnly(psycopg.OperationalError):
    """The server refuses to write; nothing was written."""


def connect_to_writable(url: str) -> dict[str, Any]:
    """Arguments with which the driver looks for a server that can write, and for how long at each.

    `primary` in the address is kept: it accepts a database that is read-only by default.
    """
    given = conninfo_to_dict(url)
    session = "primary" if given.get("target_session_attrs") == "primary" else "read-write"
    several = "," in str(given.get("host") or given.get("hostaddr") or "")
    most = CONNECT_SECONDS_EACH if several else CONNECT_SECONDS
    wanted = int(given.get("connect_timeout") or 0)
    seconds = min(wanted, most) if wanted > 0 else most
    return {"target_session_attrs": session, "connect_timeout": seconds}


async def leave_read_only(
    connection: AsyncConnection[Any], error: errors.ReadOnlySqlTransaction
) -> NoReturn:
    """Close the connection of a server that can no longer write, so that the next one goes to one
    that can. The error of a transaction that its own code made read-only stays what it is."""
    if not is_writable(connection):
        await connection.close()
        raise ServerReadOnly(f"the server is read-only: {error}") from error
    raise error


def is_writable(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Whether the server has reported that it is writable. A pooler does not pass such reports on;
    without one, a refused write means that the server is read-only."""
    told = [connection.info.parameter_status(name) for name in _READ_ONLY]
    return told == ["off", "off"]


def why_unreachable(error: BaseException) -> str:
    """The driver's reason, or what a read-only server means."""
    text = str(error).strip() or type(error).__name__
    if "read-only" in text or "hot standby" in text:
        return (
            "the server is read-only (a standby, or a primary that was demoted) and Regente needs "
            "one that can write; name all servers of the cluster in the address: host=a,b"
        )
    return text.splitlines()[0]
