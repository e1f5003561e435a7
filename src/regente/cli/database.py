"""The database's address and a plain connection, for commands that must not change its schema."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncConnection

from regente.cli.command import CommandContext
from regente.engine.database import Database
from regente.engine.errors import DatabaseUnavailable
from regente.engine.writable import connect_to_writable, why_unreachable
from regente.postgres.embedded import EmbeddedPostgres, default_data_dir


@dataclass(frozen=True, slots=True)
class DatabaseServer:
    url: str
    data_dir: Path | None  # of the embedded server


@contextlib.asynccontextmanager
async def server(context: CommandContext) -> AsyncIterator[DatabaseServer]:
    """The given server, or the embedded one, which runs at least as long as this block."""
    if context.settings.database_url is not None:
        yield DatabaseServer(context.settings.database_url, None)
        return
    data_dir = context.settings.data_dir or default_data_dir()
    embedded = await asyncio.to_thread(EmbeddedPostgres.acquire, data_dir)
    try:
        yield DatabaseServer(embedded.url, data_dir)
    finally:
        await asyncio.to_thread(embedded.release)


@contextlib.asynccontextmanager
async def plain_connection(context: CommandContext) -> AsyncIterator[AsyncConnection[Any]]:
    async with server(context) as found:
        try:
            connection: AsyncConnection[Any] = await AsyncConnection.connect(
                found.url,
                autocommit=True,
                prepare_threshold=None,
                application_name="regente",
                **connect_to_writable(found.url),
            )
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(
                f"cannot reach PostgreSQL at {Database(found.url).safe_url}: "
                f"{why_unreachable(error)}"
            ) from error
        async with connection:
            yield connection
