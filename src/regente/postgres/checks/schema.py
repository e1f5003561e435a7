"""Checks of Regente's schema: version, privileges, durability, disk space."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from regente.engine.migrations import read_migrations
from regente.postgres.checks.context import CheckContext, Finding

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg.rows import DictRow

_GIB = 1024**3


async def check_schema(context: CheckContext) -> list[Finding]:
    row = await context.row("schema")
    return [_permission(row), await _version(context, row), *await _unlogged(context)]


def _permission(row: DictRow) -> Finding:
    if row["may_create"] or (row["may_create_schema"] and not row["has_schema"]):
        return Finding("permission", "ok", "This role may create what Regente needs.")
    if row["may_use"]:
        summary, advice = (
            "This role may not change the schema.",
            "Run `regente migrate up` as the schema's owner.",
        )
        return Finding("permission", "info", summary, advice)
    advice = (
        "As the owner: GRANT CREATE ON DATABASE … TO …, or run `regente migrate up` as a role "
        "that may."
    )
    return Finding(
        "permission", "error", "This role may not create or use the schema regente.", advice
    )


async def _version(context: CheckContext, row: DictRow) -> Finding:
    migrations = (
        await context.rows("schema_version") if row["has_migrations"] and row["may_use"] else []
    )
    if migrations:
        return _compared(context, {row["component"]: row["version"] for row in migrations})
    if row["has_migrations"] and not row["may_use"]:
        return Finding("schema", "info", "This role may not see the schema's version.")
    return Finding(
        "schema", "info", "Regente's schema is not installed yet.", "Run `regente migrate up`."
    )


def _compared(examination: CheckContext, installed: dict[str, int]) -> Finding:
    newest = {one.name: read_migrations(one)[-1].version for one in examination.components}
    summary = "Installed: " + ", ".join(f"{name} {found}" for name, found in installed.items())
    details = {"version": installed}
    older = [
        f"{name} {newest[name]}"
        for name, version in installed.items()
        if version < newest.get(name, 0)
    ]
    if older:
        advice = "Run `regente migrate up`."
        summary += f"; this program needs {', '.join(older)}."
        return Finding("schema", "error", summary, advice, details)
    newer = [name for name, version in installed.items() if version > newest.get(name, version)]
    told = f"; newer than this program: {', '.join(newer)}" if newer else ""
    return Finding("schema", "ok", f"{summary}{told}.", details=details)


async def _unlogged(context: CheckContext) -> list[Finding]:
    names = [row["name"] for row in await context.rows("unlogged_tables")]
    if not names:
        return []
    advice = "A crash empties them: ALTER TABLE regente.… SET LOGGED."
    return [
        Finding(
            "unlogged", "error", f"Unlogged tables: {', '.join(names)}.", advice, {"tables": names}
        )
    ]


async def check_disk(data_dir: Path) -> Finding:
    """Check the embedded server's disk."""
    try:
        usage = await asyncio.to_thread(shutil.disk_usage, data_dir)
    except OSError as error:
        return Finding(
            "disk", "info", f"The disk of {data_dir} could not be checked: {error.strerror}."
        )
    details = {"data_dir": str(data_dir), "free_bytes": usage.free, "total_bytes": usage.total}
    summary = (
        f"{usage.free / _GIB:.1f} GiB of {usage.total / _GIB:.1f} GiB are free for {data_dir}."
    )
    if usage.free > 2 * _GIB:
        return Finding("disk", "ok", summary, details=details)
    advice = "PostgreSQL stops when its disk is full: free some space."
    return Finding(
        "disk", "error" if usage.free < _GIB / 4 else "warning", summary, advice, details
    )
