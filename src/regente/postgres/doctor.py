"""Examines any PostgreSQL for Regente and reports problems. It only reads.

A check that lacks a permission becomes an `info`, never a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg

from regente.engine.migrations import ENGINE, Component
from regente.postgres.checks.connection import check_clock, check_pooler, unreachable
from regente.postgres.checks.context import Check, CheckContext, Finding, connect
from regente.postgres.checks.embedded import check_embedded
from regente.postgres.checks.schema import check_disk, check_schema
from regente.postgres.checks.server import (
    check_connections,
    check_extensions,
    check_server,
    check_settings,
    check_timeouts,
)
from regente.postgres.checks.standbys import check_standbys
from regente.postgres.checks.vacuum import (
    check_feed,
    check_horizon,
    check_task_table,
    check_wraparound,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Finding", "examine"]

_CONNECT_SECONDS = 15.0
_CHECK_SECONDS = 15.0

_CHECKS: tuple[Check, ...] = (
    check_server,
    check_pooler,
    check_clock,
    check_settings,
    check_timeouts,
    check_connections,
    check_standbys,
    check_extensions,
    check_schema,
    check_horizon,
    check_feed,
    check_wraparound,
    check_task_table,
)


async def examine(
    database_url: str,
    *,
    data_dir: Path | None = None,
    components: Sequence[Component] = (ENGINE,),
) -> list[Finding]:
    """All findings, in the order of the checks; `data_dir` is the embedded
    server's, if it is that."""
    findings = [await check_disk(data_dir), *await check_embedded()] if data_dir else []
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            connection = await connect(database_url)
    except (psycopg.Error, OSError) as error:
        return [unreachable(database_url, error), *findings]
    async with connection:
        examination = CheckContext(database_url, connection, components)
        reached = [Finding("reachable", "ok", "The database can be reached.")]
        for check in _CHECKS:
            reached += await _run(check, examination)
        return reached + findings


async def _run(check: Check, examination: CheckContext) -> list[Finding]:
    name = check.__name__.removeprefix("check_")
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await check(examination)
    except psycopg.errors.InsufficientPrivilege as error:
        return [Finding(name, "info", f"This role may not run the check: {error}")]
    except (psycopg.Error, TimeoutError) as error:
        lost = examination.connection.closed
        return [
            Finding(
                name,
                "error" if lost else "warning",
                f"This could not be checked: {error or 'no answer'}",
            )
        ]
