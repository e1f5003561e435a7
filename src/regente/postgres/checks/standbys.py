"""Checks of replication: which standbys follow, and what would be lost with the primary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regente.postgres.checks.context import CheckContext, Finding

if TYPE_CHECKING:
    from regente.queries import Row

_SYNCHRONOUS = ("sync", "quorum")
# Settings of synchronous_commit with which a commit does not wait for a standby.
_WAITS_FOR_NONE = ("off", "local")


async def check_standbys(context: CheckContext) -> list[Finding]:
    """Nothing for a server that is a standby itself: that is an error of its own."""
    rows = await context.rows("replication")
    if not rows:
        return []
    server, standbys = rows[0], await context.rows("standbys")
    details = {**server, "standbys": [dict(row) for row in standbys]}
    level, summary, advice = _verdict(server, standbys)
    told = f"Timeline {server['timeline']}. {summary}"
    return [Finding("standbys", level, told, advice, details)]


def _verdict(server: Row, standbys: list[Row]) -> tuple[Any, str, str | None]:
    if any(row["state"] is None for row in standbys):
        advice = "GRANT pg_monitor to the role to examine them."
        return "info", f"{len(standbys)} standbys follow; this role may not see them.", advice
    following = [row for row in standbys if row["state"] == "streaming"]
    safe = [row for row in following if row["sync_state"] in _SYNCHRONOUS]
    named = ", ".join(_named(row) for row in standbys)
    if server["wanted"] and not safe:
        advice = "Bring a standby back, or empty synchronous_standby_names: commits wait for it."
        return "error", f"No synchronous standby follows{_these(named)}: no commit returns.", advice
    if not standbys:
        advice = "Keep a standby or backups with the WAL."
        return "info", "No standby follows: with this server's disk everything is lost.", advice
    if safe and server["commit"] not in _WAITS_FOR_NONE:
        summary = f"If the primary died now, nothing that was confirmed would be lost: {named}."
        return "ok", summary, None
    if safe:
        advice = "SET synchronous_commit = on for the role and the database that Regente uses."
        why = f"synchronous_commit = {server['commit']}, so no commit waits for a standby"
    else:
        advice = "Set synchronous_standby_names, so that commits wait for a standby."
        why = "none of the standbys is synchronous"
    return "warning", f"{_loss(standbys)}: {why} ({named}).", advice


def _these(named: str) -> str:
    return f" ({named})" if named else ""


def _named(row: Row) -> str:
    return f"{row['name']} {row['sync_state']}, {row['state']}, {_missing(row)}"


def _missing(row: Row) -> str:
    if row["missing_bytes"] is None:
        return "nothing received yet"
    behind = f" and {row['behind_seconds']:.1f} s" if row["behind_seconds"] else ""
    return f"{row['missing_bytes']:.0f} bytes{behind} behind"


def _loss(standbys: list[Row]) -> str:
    received = [row for row in standbys if row["missing_bytes"] is not None]
    if not received:
        return "If the primary died now, everything would be lost"
    least = min(received, key=lambda row: row["missing_bytes"])
    if least["missing_bytes"] == 0:
        return "If the primary died now, nothing would be lost, but a moment later it may be"
    return (
        f"If the primary died now, the last {least['missing_bytes']:.0f} bytes of WAL would be lost"
    )
