"""The writer's connections and schema. No state outlives a transaction (transaction poolers)."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from regente.services.writer.config import WriterConfig
from regente.services.writer.queries import QUERIES

Pool = AsyncConnectionPool[AsyncConnection[Any]]

_CONNECT: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": None,
    "connect_timeout": 10,
    "application_name": "regente writer",
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_POOL_SECONDS = 10.0


async def prepare_database(config: WriterConfig) -> None:
    """Create the missing tables. Several writers may run this at once."""
    async with await AsyncConnection.connect(config.database_url, **_CONNECT) as connection:
        for name in ("create_schema", *(["create_ads"] if config.create_ads else [])):
            async with connection.transaction():
                await connection.execute(QUERIES[name])


def make_pool(config: WriterConfig) -> Pool:
    return AsyncConnectionPool(
        config.database_url,
        kwargs=_CONNECT,
        min_size=1,
        max_size=config.concurrent_jobs + 4,
        timeout=_POOL_SECONDS,
        check=AsyncConnectionPool.check_connection,
        open=False,
        name="regente-writer",
    )
