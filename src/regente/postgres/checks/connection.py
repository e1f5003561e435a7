"""Checks of the connection: reachable server, pooler in between, difference of the clocks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from regente.postgres.checks.context import CheckContext, Finding, connect, fetch

if TYPE_CHECKING:
    from psycopg.rows import DictRow

_CLOCK_WARNING_SECONDS = 2.0
_CLOCK_SAMPLES = 3

# The first match wins.
_ADVICE = (
    ("password", "Check the user and the password in REGENTE_DATABASE_URL."),
    (
        "no pg_hba.conf entry",
        "The server admits no connection from here: add a line to its pg_hba.conf.",
    ),
    ("does not exist", "Create it, or correct its name in REGENTE_DATABASE_URL."),
    ("refused", "Is the server running, and is the port right?"),
    ("No such file", "Is the server running, and is the folder of its socket right?"),
    ("resolve", "Check the host name in REGENTE_DATABASE_URL."),
    ("translate host name", "Check the host name in REGENTE_DATABASE_URL."),
    ("timeout", "The server does not answer: check the address, the network and the firewall."),
    ("too many", "All connections are in use: raise max_connections, or put a pooler in between."),
    (
        "remaining connection slots",
        "All connections are in use: raise max_connections, or put a pooler in between.",
    ),
    ("SSL", "Check sslmode in REGENTE_DATABASE_URL against what the server offers."),
)


def unreachable(database_url: str, error: Exception) -> Finding:
    """The finding for an unreachable server, without the password."""
    try:
        parts = conninfo_to_dict(database_url)
    except psycopg.ProgrammingError:
        # Its text quotes the URL with the password.
        return Finding(
            "reachable",
            "error",
            "REGENTE_DATABASE_URL is not a PostgreSQL address.",
            _ADDRESS_ADVICE,
        )
    details = {name: str(value) for name, value in parts.items() if name in _SHOWN}
    if (
        any("@" in value for value in details.values())
        or not details.get("port", "0").replace(",", "").isdigit()
    ):
        # Part of the password is then parsed as the host, the port or the database.
        return Finding(
            "reachable", "error", "The address has a character in the wrong place.", _ADDRESS_ADVICE
        )
    text = _without_password(" ".join(str(error).split()) or type(error).__name__, parts)
    advice = next((advice for sign, advice in _ADVICE if sign in text), None)
    return Finding("reachable", "error", f"The database cannot be reached: {text}", advice, details)


_SHOWN = {"host", "port", "dbname", "user"}
_ADDRESS_ADVICE = (
    "Write it as postgresql://user:password@host:5432/database, with an @ in the password as "
    "%40, a / as %2F."
)


def _without_password(text: str, parts: dict[str, Any]) -> str:
    password = parts.get("password")
    return text.replace(str(password), "***") if password else text


async def check_pooler(context: CheckContext) -> list[Finding]:
    """Detect a transaction pooler: it changes sessions between transactions and loses LISTEN."""
    announced = context.connection.info.backend_pid
    first = (await context.row("backend_pid"))["pid"]
    details = {"announced_pid": announced, "pid": first}
    if announced == first:
        return [Finding("pooler", "ok", "The connection is direct: LISTEN works.", details=details)]
    if await _changes_sessions(context, first):
        advice = "Latency only: for immediate wake-ups, give the server's direct address."
        summary = (
            "A pooler in transaction mode stands in between: polling is used instead of LISTEN."
        )
        return [Finding("pooler", "info", summary, advice, details | {"mode": "transaction"})]
    summary = "A pooler in session mode stands in between: LISTEN works."
    return [Finding("pooler", "ok", summary, details=details | {"mode": "session"})]


async def _changes_sessions(context: CheckContext, first_pid: int) -> bool:
    """Hold a session by a second connection; the first keeps its own unless a pooler swaps it."""
    async with await connect(context.database_url) as second, second.transaction():
        if await _pid(second) == first_pid:
            return True
        return await _pid(context.connection) != first_pid


async def _pid(connection: psycopg.AsyncConnection[DictRow]) -> int:
    pid: int = (await fetch(connection, "backend_pid"))[0]["pid"]
    return pid


async def check_clock(context: CheckContext) -> list[Finding]:
    samples = [await _sample_clock(context) for _ in range(_CLOCK_SAMPLES)]
    round_trip_seconds, offset_seconds = min(samples)
    details = {
        "offset_seconds": round(offset_seconds, 4),
        "round_trip_seconds": round(round_trip_seconds, 4),
    }
    summary = (
        f"The database's clock is {abs(offset_seconds):.3f} s "
        f"{'ahead' if offset_seconds > 0 else 'behind'}."
    )
    if abs(offset_seconds) - round_trip_seconds / 2 <= _CLOCK_WARNING_SECONDS:
        return [Finding("clock", "ok", summary, details=details)]
    advice = (
        "The engine uses the database's clock only, but log times will differ: set up NTP on "
        "both machines."
    )
    return [Finding("clock", "warning", summary, advice, details)]


async def _sample_clock(context: CheckContext) -> tuple[float, float]:
    before = time.time()
    database_seconds: float = (await context.row("clock"))["epoch_seconds"]
    after = time.time()
    return after - before, database_seconds - (before + after) / 2
