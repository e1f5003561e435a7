"""Schema migrations: one stream of numbered pairs of `.up.sql` and `.down.sql` for each component,
each pair applied in one transaction with its record.

A component is a part of the program with tables of its own: the engine, or a part built on it,
which the engine knows by its name and folder alone. A database has the components that its
processes use.

After a crash a migration is applied completely or not at all. A file whose first line is
`-- outside a transaction` (for CREATE INDEX CONCURRENTLY) is applied statement by statement; its
statements must be repeatable. A migration waits for locks briefly and then retries, so that it does
not block running code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, errors

from regente.engine.crashpoints import crash_point
from regente.engine.errors import InvalidInput, SchemaOutdated
from regente.engine.queries import query

OUTSIDE = "-- outside a transaction"
LOCK_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Component:
    """A part with tables of its own, and the folder of their migrations."""

    name: str
    folder: Path


ENGINE = Component("engine", Path(__file__).parent / "sql" / "migrations")


@dataclass(frozen=True, slots=True)
class Migration:
    component: str
    version: int
    name: str
    up: str
    down: str


@dataclass(frozen=True, slots=True)
class MigrationState:
    component: str
    version: int
    name: str
    applied_at: datetime | None


Applied = dict[tuple[str, int], datetime]


class Migrator:
    """Applies and takes back the migrations of these components, in this order."""

    def __init__(
        self, connection: AsyncConnection[Any], components: Sequence[Component] = (ENGINE,)
    ) -> None:
        self._connection = connection
        self._components = [component.name for component in components]
        self._migrations = [one for component in components for one in read_migrations(component)]

    @property
    def newest(self) -> dict[str, int]:
        """The version of each component that this program needs."""
        return {migration.component: migration.version for migration in self._migrations}

    async def installed(self) -> dict[str, int]:
        """The version of each component of which anything is installed."""
        applied = await self._applied()
        found = {
            name: max((version for component, version in applied if component == name), default=0)
            for name in self._components
        }
        return {name: version for name, version in found.items() if version}

    async def status(self) -> list[MigrationState]:
        applied = await self._applied()
        return [
            MigrationState(m.component, m.version, m.name, applied.get((m.component, m.version)))
            for m in self._migrations
        ]

    async def up(self, target: int | None = None) -> list[Migration]:
        """Apply what is missing, oldest first; with one component, up to the version `target`. Of
        two callers at once the second finds nothing left to do."""
        self._check(target)
        await self._connection.execute(query("create_migrations_table"))
        done: list[Migration] = []
        for migration in self._migrations:
            if (target is None or migration.version <= target) and await self._step(
                migration, migration.up, "record_migration"
            ):
                done.append(migration)
        return done

    async def down(self, target: int = 0) -> list[Migration]:
        """Take back everything, newest first; with one component, what is above the version
        `target`."""
        self._check(target)
        if not await self._is_prepared():
            return []
        await self._connection.execute(query("create_migrations_table"))
        done: list[Migration] = []
        for migration in reversed(self._migrations):
            if migration.version > target and await self._step(
                migration, migration.down, "unrecord_migration"
            ):
                done.append(migration)
        return done

    async def require(self) -> None:
        """Refuse to work on components that are older than this code. Newer ones are fine:
        migrations only add."""
        installed = await self.installed()
        newest = self.newest
        outdated = [name for name in newest if installed.get(name, 0) < newest[name]]
        if outdated:
            told = ", ".join(
                f"{name} is at version {installed.get(name, 0)}, this program needs {newest[name]}"
                for name in outdated
            )
            only = f" --component {outdated[0]}" if len(outdated) == 1 else ""
            raise SchemaOutdated(
                f"the database's schema is outdated: {told}; run `regente migrate up{only}`"
            )

    def _check(self, target: int | None) -> None:
        if target is None:
            return
        versions = [0]
        if len(self._components) == 1:
            versions += [migration.version for migration in self._migrations]
        if target not in versions:
            raise InvalidInput(
                f"there is no migration {target} of {', '.join(self._components)}; "
                f"known: {', '.join(map(str, versions))}"
            )

    async def _is_prepared(self) -> bool:
        row = await (await self._connection.execute(query("migrations_table"))).fetchone()
        return row is not None and row[0] is not None

    async def _step(self, migration: Migration, script: str, record: str) -> bool:
        deadline = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            try:
                if script.startswith(OUTSIDE):
                    return await self._step_outside(migration, script, record)
                return await self._step_inside(migration, script, record)
            except (errors.LockNotAvailable, errors.DeadlockDetected):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)

    async def _step_inside(self, migration: Migration, script: str, record: str) -> bool:
        async with self._connection.transaction():
            await self._connection.execute(query("lock_migrations"))
            if not await self._is_due(migration, record):
                return False
            await self._connection.execute(query("short_locks"))
            for statement in statements(script):
                await self._connection.execute(statement)
                crash_point("migrate.statement")
            await self._record(migration, record)
        return True

    async def _step_outside(self, migration: Migration, script: str, record: str) -> bool:
        while not await self._lock_outside():
            await asyncio.sleep(0.2)
        try:
            return await self._apply_outside(migration, script, record)
        finally:
            if not self._connection.closed:
                await self._connection.execute(query("unlock_outside"))

    async def _lock_outside(self) -> bool:
        row = await (await self._connection.execute(query("try_lock_outside"))).fetchone()
        return row is not None and bool(row[0])

    async def _apply_outside(self, migration: Migration, script: str, record: str) -> bool:
        if not await self._is_due(migration, record):
            return False
        for statement in statements(script):
            await self._connection.execute(statement)
            crash_point("migrate.statement")
        async with self._connection.transaction():
            await self._connection.execute(query("lock_migrations"))
            if await self._is_due(migration, record):
                await self._record(migration, record)
        return True

    async def _is_due(self, migration: Migration, record: str) -> bool:
        is_applied = (migration.component, migration.version) in await self._applied()
        return is_applied == (record == "unrecord_migration")

    async def _record(self, migration: Migration, record: str) -> None:
        await self._connection.execute(
            query(record),
            {
                "component": migration.component,
                "version": migration.version,
                "name": migration.name,
            },
        )

    async def _applied(self) -> Applied:
        if not await self._is_prepared():
            return {}
        rows = await (await self._connection.execute(query("applied_migrations"))).fetchall()
        return {(component, version): applied_at for component, version, applied_at in rows}


def read_migrations(component: Component) -> list[Migration]:
    found = []
    for up in sorted(component.folder.glob("*.up.sql")):
        number, _, name = up.name.removesuffix(".up.sql").partition("_")
        down = up.with_name(up.name.replace(".up.sql", ".down.sql"))
        scripts = up.read_text("utf-8"), down.read_text("utf-8")
        found.append(Migration(component.name, int(number), name, *scripts))
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(
            f"the migrations in {component.folder} are not numbered 1, 2, 3, … without a gap"
        )
    return found


def statements(script: str) -> list[str]:
    """Split at semicolons at a line's end, outside of $$ bodies."""
    found: list[str] = []
    current: list[str] = []
    quoted = False
    for line in script.splitlines():
        current.append(line)
        quoted ^= line.count("$$") % 2 == 1
        if not quoted and line.split("--")[0].rstrip().endswith(";"):
            found.append("\n".join(current))
            current = []
    if any(line.strip() and not line.lstrip().startswith("--") for line in current):
        found.append("\n".join(current))
    return found
