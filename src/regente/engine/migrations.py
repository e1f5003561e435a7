"""Schema migrations: numbered pairs of `.up.sql` and `.down.sql`, each applied in one transaction
with its record.

After a crash a migration is applied completely or not at all. A file whose first line is
`-- outside a transaction` (for CREATE INDEX CONCURRENTLY) is applied statement by statement; its
statements must be repeatable. A migration waits for locks briefly and then retries, so that it does
not block running code.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, errors

from regente.engine.crashpoints import crash_point
from regente.engine.errors import InvalidInput, SchemaOutdated
from regente.engine.queries import query

MIGRATIONS_FOLDER = Path(__file__).parent / "sql" / "migrations"
OUTSIDE = "-- outside a transaction"
LOCK_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    up: str
    down: str


@dataclass(frozen=True, slots=True)
class MigrationState:
    version: int
    name: str
    applied_at: datetime | None


class Migrator:
    def __init__(self, connection: AsyncConnection[Any], folder: Path = MIGRATIONS_FOLDER) -> None:
        self._connection = connection
        self._migrations = read_migrations(folder)

    @property
    def newest(self) -> int:
        return self._migrations[-1].version

    async def version(self) -> int:
        """0 when nothing is installed."""
        row = await (await self._connection.execute(query("migrations_table"))).fetchone()
        if row is None or row[0] is None:
            return 0
        applied = await self._applied()
        return max(applied, default=0)

    async def status(self) -> list[MigrationState]:
        applied = await self._applied() if await self.version() else {}
        return [MigrationState(m.version, m.name, applied.get(m.version)) for m in self._migrations]

    async def up(self, target: int | None = None) -> list[Migration]:
        """Apply what is missing, oldest first. Two callers at once: the second finds nothing left
        to do."""
        wanted = self._checked(target if target is not None else self.newest)
        await self._connection.execute(query("create_migrations_table"))
        done: list[Migration] = []
        for migration in self._migrations:
            if migration.version <= wanted and await self._step(
                migration, migration.up, "record_migration"
            ):
                done.append(migration)
        return done

    async def down(self, target: int) -> list[Migration]:
        """Take back everything above `target`, newest first."""
        wanted = self._checked(target)
        if await self.version() == 0:
            return []
        done: list[Migration] = []
        for migration in reversed(self._migrations):
            if migration.version > wanted and await self._step(
                migration, migration.down, "unrecord_migration"
            ):
                done.append(migration)
        return done

    async def require(self) -> None:
        """Refuse to work on a schema that is older than this code. A newer one is fine: migrations
        only add."""
        found = await self.version()
        if found < self.newest:
            raise SchemaOutdated(
                f"the database's schema is at version {found}, this program needs "
                f"{self.newest}: run `regente migrate up`"
            )

    def _checked(self, target: int) -> int:
        known = {0, *(migration.version for migration in self._migrations)}
        if target not in known:
            raise InvalidInput(
                f"there is no migration {target}; known: {', '.join(map(str, sorted(known)))}"
            )
        return target

    async def _step(self, migration: Migration, script: str, record: str) -> bool:
        deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
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
        return (migration.version in await self._applied()) == (record == "unrecord_migration")

    async def _record(self, migration: Migration, record: str) -> None:
        await self._connection.execute(
            query(record), {"version": migration.version, "name": migration.name}
        )

    async def _applied(self) -> dict[int, datetime]:
        rows = await (await self._connection.execute(query("applied_migrations"))).fetchall()
        return dict(rows)


def read_migrations(folder: Path) -> list[Migration]:
    found = []
    for up in sorted(folder.glob("*.up.sql")):
        number, _, name = up.name.removesuffix(".up.sql").partition("_")
        down = up.with_name(up.name.replace(".up.sql", ".down.sql"))
        found.append(Migration(int(number), name, up.read_text("utf-8"), down.read_text("utf-8")))
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations in {folder} are not numbered 1, 2, 3, … without a gap")
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
