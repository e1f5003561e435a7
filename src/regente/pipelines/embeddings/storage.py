"""How vectors are stored: as real[], or as pgvector's `vector` if the extension is available.

Queries work with both types. Converting rewrites the table, so a runner only converts a small one.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from enum import StrEnum

import psycopg
from psycopg import sql

from regente.engine.database import Database
from regente.engine.errors import InvalidInput
from regente.pipelines.embeddings.queries import QUERIES

logger = logging.getLogger("regente.embeddings")

MAX_CONVERTED_UNASKED = 10_000


class StorageKind(StrEnum):
    ARRAY = "real[]"
    PGVECTOR = "pgvector"


@dataclass(frozen=True, slots=True)
class Layout:
    kind: StorageKind
    schema: str
    """Of the column's type."""


async def layout(database: Database) -> Layout:
    row = (await QUERIES.fetch_all(database, "column_type"))[0]
    kind = StorageKind.PGVECTOR if row["type"] == "vector" else StorageKind.ARRAY
    return Layout(kind, row["schema"])


class Storage:
    """Converts the column to pgvector once per process, if possible."""

    def __init__(self, database: Database, *, pgvector: bool) -> None:
        self._database = database
        self._pgvector = pgvector
        self._preparing = asyncio.Lock()
        self._ready = False

    async def prepare(self) -> None:
        async with self._preparing:
            if self._ready:
                return
            await QUERIES.execute(self._database, "clear_reservations")
            if self._pgvector and (await layout(self._database)).kind is StorageKind.ARRAY:
                await self._use_pgvector_if_easy()
            self._ready = True

    async def _use_pgvector_if_easy(self) -> None:
        found = (await QUERIES.fetch_all(self._database, "extension"))[0]
        if found["schema"] is None and not found["available"]:
            return
        try:
            await convert(self._database, at_most=MAX_CONVERTED_UNASKED)
        except InvalidInput as error:
            logger.info("vectors stay real[]: %s", error)
        except psycopg.Error as error:
            # No privilege to create it, or the table is locked: arrays work as well.
            logger.info("vectors stay real[]: %s", str(error).strip().splitlines()[0])


async def convert(database: Database, *, at_most: int | None = None) -> Layout:
    """Convert all vectors from real[] to pgvector. Writes wait meanwhile."""
    async with database.transaction() as connection:
        await QUERIES.execute(connection, "alone")
        await QUERIES.execute(connection, "create_extension")
        schema = (await QUERIES.fetch_all(connection, "extension"))[0]["schema"]
        if at_most is not None:
            count = sum(row["vectors"] for row in await QUERIES.fetch_all(connection, "models"))
            if count > at_most:
                raise InvalidInput(
                    f"{count:,} vectors must be rewritten: run `regente embeddings pgvector`"
                )
        if (await QUERIES.fetch_all(connection, "column_type"))[0]["type"] != "vector":
            statement = QUERIES.format("use_pgvector", schema=sql.Identifier(schema))
            await QUERIES.execute(connection, statement)
    return await layout(database)
