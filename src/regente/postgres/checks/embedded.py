"""Checks the embedded server's programs, which no system updates."""

from __future__ import annotations

import asyncio
import time

from regente.postgres.binaries import PackagedServer, packaged_server
from regente.postgres.checks.context import Finding, Level
from regente.postgres.errors import EmbeddedPostgresError

MAX_AGE_DAYS = 100
"""PostgreSQL publishes fixes every three months, of security holes too."""
_ADVICE = (
    "PostgreSQL publishes fixes every three months: install a newer {package} and restart, or use "
    "a server that your system keeps up to date (REGENTE_DATABASE_URL)."
)


async def check_embedded() -> list[Finding]:
    """The version of the embedded server's programs, and for how long they have been installed."""
    try:
        found = await asyncio.to_thread(packaged_server)
    except (EmbeddedPostgresError, OSError) as error:
        return [Finding("embedded", "info", f"The embedded server was not examined: {error}")]
    return [finding_of(found)]


def finding_of(found: PackagedServer) -> Finding:
    days = int((time.time() - found.installed_at) / 86_400)
    summary = f"{found.version} of {found.package} {found.package_version} is {days} days old here."
    details = {"version": found.version, "package": found.package_version, "age_days": days}
    level: Level = "warning" if days > MAX_AGE_DAYS else "info"
    return Finding("embedded", level, summary, _ADVICE.format(package=found.package), details)
