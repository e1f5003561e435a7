"""An API with a stream, and functions that write and read events."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import httpx2
import psycopg
import pytest
from psycopg.types.json import Jsonb

from regente import Regente
from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.app import create_app
from regente.api.config import ApiConfig
from regente.api.queries import LimitedDatabase
from regente.api.stream.config import StreamConfig
from regente.api.stream.feed import Feed
from regente.asgi.server import serving


@dataclass(frozen=True, slots=True)
class StreamApi:
    url: str
    client: httpx2.AsyncClient
    feed: Feed
    key: str = field(repr=False)
    key_id: str = ""


Open = Callable[..., contextlib.AbstractAsyncContextManager[StreamApi]]


@pytest.fixture
def opened(app: Regente) -> Open:
    """Serves any number of APIs in one test; the arguments are the stream's configuration."""

    @contextlib.asynccontextmanager
    async def open_one(**changes: float) -> AsyncIterator[StreamApi]:
        ring = ApiKeys(LimitedDatabase(app.database))
        made = await ring.create(f"stream-{len(await ring.all())}", Role.VIEWER, by="test")
        stream = StreamConfig(**changes)  # type: ignore[arg-type]
        served = create_app(app, ApiConfig(stream=stream, request_burst=10_000))
        feed: Feed = served.state.feed
        async with (
            serving(served, drain_seconds=0, before_stop=feed.close) as url,
            httpx2.AsyncClient(
                base_url=url, headers={"x-api-key": made.secret}, trust_env=False, timeout=30
            ) as client,
        ):
            yield StreamApi(url, client, feed, made.secret, made.id)

    return open_one


@pytest.fixture
async def stream_api(opened: Open) -> AsyncIterator[StreamApi]:
    async with opened() as found:
        yield found


async def put(url: str, *events: str, **fields: object) -> None:
    """Writes the events in one transaction."""
    columns = {"task_id": None, "batch_id": None, "details": None} | fields
    async with await psycopg.AsyncConnection.connect(url) as connection:
        for event in events:
            await connection.execute(
                "INSERT INTO regente.events (event, task_id, batch_id, details) VALUES "
                "(%s, %s, %s, %s)",
                (event, columns["task_id"], columns["batch_id"], Jsonb(columns["details"])),
            )


async def positions(url: str) -> list[str]:
    """The position of every event in the database, in the order of the feed."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        rows = await connection.execute(
            "SELECT txid::text || '-' || id || '-' || regente.timeline() FROM regente.events "
            "ORDER BY txid, id"
        )
        return [row[0] for row in await rows.fetchall()]
