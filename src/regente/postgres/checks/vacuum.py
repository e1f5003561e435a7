"""Checks of what waits for old transactions: VACUUM's horizon and the feed; wraparound, dead
rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regente.postgres.checks.context import CheckContext, Finding

if TYPE_CHECKING:
    from psycopg.rows import DictRow

_LONG_SECONDS = 300.0
_LONG_FOR_FEED_SECONDS = 60.0
_MANY_XIDS = 1_000_000
_XIDS_LEFT_ERROR = 200_000_000
_LAST_XID = 2**31
_MANY_DEAD_ROWS = 100_000


async def check_horizon(context: CheckContext) -> list[Finding]:
    rows = await context.rows("horizon")
    if not rows:
        return [Finding("horizon", "ok", "Nothing keeps VACUUM from removing dead rows.")]
    oldest = rows[0]
    is_long = (oldest["held_seconds"] or 0) > _LONG_SECONDS or (
        oldest["age_xids"] or 0
    ) > _MANY_XIDS
    summary = f"The oldest that VACUUM must wait for is {_describe(oldest)}."
    advice = _ADVICE[oldest["holder"]].format(**oldest) if is_long else None
    return [
        Finding(
            "horizon",
            "warning" if is_long else "info",
            summary,
            advice,
            {"holders": [dict(r) for r in rows]},
        )
    ]


_ADVICE = {
    "session": (
        "Dead rows pile up until it ends: SELECT pg_terminate_backend({pid}) if it is not needed."
    ),
    "prepared transaction": (
        "Dead rows pile up until it ends: ROLLBACK PREPARED '{name}' if it is abandoned."
    ),
    "replication slot": (
        "Dead rows pile up: SELECT pg_drop_replication_slot('{name}') if it is no longer used."
    ),
    "standby": (
        "A long query on the standby holds back this server: end it, or set "
        "hot_standby_feedback = off there."
    ),
}


async def check_feed(context: CheckContext) -> list[Finding]:
    """The event feed waits for the oldest transaction that has written, in any database."""
    rows = await context.rows("feed")
    if not rows:
        return [Finding("feed", "ok", "No open transaction holds back the event feed.")]
    oldest = rows[0]
    is_long = (oldest["held_seconds"] or 0) > _LONG_FOR_FEED_SECONDS
    summary = (
        f"The event feed shows nothing younger than {_describe(oldest)}, "
        f"in database {oldest['database']}."
    )
    advice = _FEED_ADVICE[oldest["holder"]].format(**oldest) if is_long else None
    details = {"holders": [dict(r) for r in rows]}
    return [Finding("feed", "warning" if is_long else "info", summary, advice, details)]


_FEED_ADVICE = {
    "session": "End it if it is not needed: SELECT pg_terminate_backend({pid}).",
    "prepared transaction": (
        "If it is abandoned, in its database {database}: ROLLBACK PREPARED '{name}'."
    ),
}


def _describe(row: DictRow) -> str:
    parts = [f"the {row['holder']} {row['name'] or ''}".strip()]
    parts += [f"pid {row['pid']}"] if row["pid"] else []
    parts += [row["state"]] if row["state"] else []
    parts += [f"for {row['held_seconds']:.0f} s"] if row["held_seconds"] is not None else []
    return ", ".join([*parts, f"{row['age_xids']} transactions old"])


async def check_wraparound(context: CheckContext) -> list[Finding]:
    row = await context.row("wraparound")
    age, limit = row["age_xids"], row["freeze_max_age_xids"]
    summary = (
        f"The oldest transaction id, in database {row['database']}, is {age} transactions old."
    )
    if age <= 1.5 * limit:
        return [Finding("wraparound", "ok", summary, details=dict(row))]
    level_is_error = _LAST_XID - age < _XIDS_LEFT_ERROR
    advice = (
        f"Autovacuum should have acted at {limit}: see what pins the horizon, then VACUUM "
        "FREEZE that database."
    )
    return [
        Finding("wraparound", "error" if level_is_error else "warning", summary, advice, dict(row))
    ]


async def check_task_table(context: CheckContext) -> list[Finding]:
    rows = await context.rows("task_table")
    if not rows:
        return []
    row = rows[0]
    vacuumed = row["last_autovacuum"] or row["last_vacuum"]
    summary = (
        f"regente.tasks: {row['dead_rows']} dead rows beside {row['live_rows']} live ones, "
        + (f"last vacuumed {vacuumed:%Y-%m-%d %H:%M:%S %Z}." if vacuumed else "never vacuumed.")
    )
    if row["dead_rows"] > max(_MANY_DEAD_ROWS, row["live_rows"]):
        advice = "See what pins the horizon; then VACUUM regente.tasks."
        return [Finding("dead_rows", "warning", summary, advice, dict(row))]
    return [Finding("dead_rows", "ok", summary, details=dict(row))]
