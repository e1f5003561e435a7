"""Checks of the server: version, encoding, extensions, durability, timeouts and connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regente.postgres.checks.context import CheckContext, Finding

if TYPE_CHECKING:
    from psycopg.rows import DictRow

OLDEST_MAJOR = 14
NEWEST_MAJOR = 18

_FEW_CONNECTIONS = 20
_SHORT_TIMEOUT_MILLISECONDS = 60_000

_LOSES_DATA = {
    "fsync": "A crash of the machine can destroy the whole database: set fsync = on.",
    "full_page_writes": "A crash of the machine can tear pages apart: set full_page_writes = on.",
    "synchronous_commit": "A crash loses the last committed transactions: "
    "set synchronous_commit = on.",
}
_STOPS_VACUUM = {
    "autovacuum": "A queue's tables grow without end: set autovacuum = on.",
    "track_counts": "Without counts autovacuum does not work: set track_counts = on.",
}


async def check_server(context: CheckContext) -> list[Finding]:
    server = await context.row("server")
    return [_version(server), _encoding(server), _standby(server)]


def _version(server: DictRow) -> Finding:
    major, details = server["major"], {"version": server["version"], "major": server["major"]}
    summary = f"PostgreSQL {server['version']}"
    if major < OLDEST_MAJOR:
        advice = f"PostgreSQL {OLDEST_MAJOR} or newer is needed."
        return Finding("version", "error", f"{summary} is too old.", advice, details)
    if major > NEWEST_MAJOR:
        advice = f"Tested up to PostgreSQL {NEWEST_MAJOR}; it will probably work."
        return Finding("version", "warning", f"{summary} is untested.", advice, details)
    return Finding("version", "ok", summary, details=details)


def _encoding(server: DictRow) -> Finding:
    encoding = server["encoding"]
    if encoding == "UTF8":
        return Finding("encoding", "ok", "The database's encoding is UTF8.")
    advice = "Create a database with ENCODING 'UTF8' TEMPLATE template0 and use that."
    return Finding("encoding", "error", f"The database's encoding is {encoding}, not UTF8.", advice)


def _standby(server: DictRow) -> Finding:
    if not server["is_standby"]:
        return Finding("standby", "ok", "The server accepts writes.")
    advice = "Give the primary's address, or several hosts with target_session_attrs=read-write."
    return Finding("standby", "error", "The server is a standby and accepts no writes.", advice)


async def check_extensions(context: CheckContext) -> list[Finding]:
    rows = await context.rows("extensions")
    states = {row["name"]: "installed" if row["installed_version"] else "available" for row in rows}
    states = {name: states.get(name, "not available") for name in ("vector", "pg_stat_statements")}
    summary = ", ".join(f"{name}: {state}" for name, state in states.items())
    return [Finding("extensions", "info", summary, details=dict(states))]


async def check_settings(context: CheckContext) -> list[Finding]:
    settings = {row["name"]: row for row in await context.rows("settings")}
    findings = [_setting(settings[name], "error", advice) for name, advice in _LOSES_DATA.items()]
    findings += [
        _setting(settings[name], "warning", advice) for name, advice in _STOPS_VACUUM.items()
    ]
    if settings["data_checksums"]["setting"] != "on":
        advice = (
            "Damage by a faulty disk stays undetected; pg_checksums can switch them on while "
            "the server is down."
        )
        findings.append(Finding("data_checksums", "info", "Data checksums are off.", advice))
    return findings


def _setting(row: DictRow, level_when_off: str, advice: str) -> Finding:
    name, value = row["name"], row["setting"]
    details = {"setting": value, "source": row["source"]}
    if value != "off":
        return Finding(name, "ok", f"{name} = {value}", details=details)
    summary = f"{name} = off (set by: {row['source']})"
    return Finding(
        name, "error" if level_when_off == "error" else "warning", summary, advice, details
    )


async def check_timeouts(context: CheckContext) -> list[Finding]:
    rows = await context.rows("timeouts")
    if not rows:
        return [Finding("timeouts", "ok", "No time limit cuts transactions short.")]
    return [_timeout(row) for row in rows]


def _timeout(row: DictRow) -> Finding:
    name, seconds = row["name"], row["milliseconds"] / 1000
    is_short = row["milliseconds"] < _SHORT_TIMEOUT_MILLISECONDS
    advice = (
        f"Long transactions are cut: ALTER ROLE … SET {name} = 0 for the role that Regente uses."
    )
    summary = f"{name} = {seconds:g} s (set by: {row['source']})"
    details = {"seconds": seconds, "source": row["source"]}
    return Finding(name, "warning" if is_short else "info", summary, advice, details)


async def check_connections(context: CheckContext) -> list[Finding]:
    row = await context.row("connections")
    pairs = (("allowed", "used"), ("role_limit", "role_used"), ("database_limit", "database_used"))
    # A limit of -1 means no limit.
    free = min(
        row[limit] - row[used]
        for limit, used in pairs
        if row[limit] is not None and row[limit] >= 0
    )
    summary = f"{free} of {row['allowed']} connections are free."
    if free >= _FEW_CONNECTIONS:
        return [Finding("connections", "ok", summary, details=dict(row))]
    advice = (
        "Each runner needs its pool and one connection for its lease: raise max_connections, "
        "or use a pooler."
    )
    return [Finding("connections", "warning", summary, advice, dict(row))]
