"""I11 under races: every client sees exactly the database's events, also when an API is killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import httpx2
import psycopg
import pytest

from regente import Regente
from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.queries import LimitedDatabase
from tests.api.stream.api_process import ApiProcess
from tests.api.stream.conftest import positions, put
from tests.api.stream.sse import next_named, stream
from tests.support.eventually import eventually_async

WRITERS, CLIENTS, ROUNDS = 20, 5, 20


class Follower:
    """Reads for a while, disconnects, and resumes at either API from its last position."""

    def __init__(self, urls: list[str], key: str, chance: random.Random) -> None:
        self.seen: list[str] = []
        self.connections = 0
        self._urls = urls
        self._key = key
        self._chance = chance
        self._place = "0-0"

    async def follow(self) -> None:
        while True:
            url = self._chance.choice(self._urls)
            async with httpx2.AsyncClient(
                base_url=url, headers={"x-api-key": self._key}, trust_env=False
            ) as client:
                with contextlib.suppress(httpx2.TransportError):
                    await self._read(client, frames=self._chance.randrange(1, 200))
            await asyncio.sleep(0.02)  # no busy loop while that API is down

    async def _read(self, client: httpx2.AsyncClient, frames: int) -> None:
        async with stream(client, self._place) as source:
            self.connections += 1
            async for frame in source:
                assert frame.name != "resync"
                self._place = frame.id
                if frame.name == "message":
                    self.seen.append(frame.id)
                frames -= 1
                if not frames:
                    return


async def write_out_of_order(url: str, chance: random.Random, half_way: asyncio.Event) -> None:
    """Each round opens all transactions, writes events, and commits them in random order."""
    async with contextlib.AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(await psycopg.AsyncConnection.connect(url))
            for _ in range(WRITERS)
        ]
        for number in range(ROUNDS):
            if number == ROUNDS // 2:
                half_way.set()
            for connection in chance.sample(connections, WRITERS):
                for _ in range(chance.randrange(1, 4)):
                    await connection.execute(
                        "INSERT INTO regente.events (event) VALUES ('written')"
                    )
            for connection in chance.sample(connections, WRITERS):
                await connection.commit()


@pytest.fixture
async def processes(database_url: str, tmp_path: Path) -> AsyncIterator[list[ApiProcess]]:
    """Two APIs on one database."""
    found = [ApiProcess(database_url, tmp_path) for _ in range(2)]
    await asyncio.gather(*(one.start() for one in found))
    yield found
    for one in found:
        await one.kill()


async def key_of(app: Regente) -> str:
    return (
        await ApiKeys(LimitedDatabase(app.database)).create("follower", Role.VIEWER, by="test")
    ).secret


async def _have_all(followers: Sequence[Follower], count: int) -> bool:
    return all(len(one.seen) >= count for one in followers)


async def test_every_client_sees_every_event_once_although_an_api_is_killed(
    app: Regente, database_url: str, processes: list[ApiProcess]
) -> None:
    """I11, F19, Z9: 20 writers, 5 reconnecting clients, one of two APIs killed and restarted."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    key, half_way = await key_of(app), asyncio.Event()
    followers = [
        Follower([one.url for one in processes], key, random.Random(seed + n))
        for n in range(CLIENTS)
    ]
    reading = [asyncio.create_task(one.follow()) for one in followers]
    writing = asyncio.create_task(write_out_of_order(database_url, chance, half_way))
    await half_way.wait()
    await processes[0].kill()
    await writing
    await processes[0].start()
    await put(database_url, "the last one")
    expected = await positions(database_url)
    with contextlib.suppress(AssertionError):  # missing events are reported below
        await eventually_async(partial(_have_all, followers, len(expected)), within_seconds=60)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    for one in followers:
        assert one.seen == expected
    assert sum(one.connections for one in followers) > CLIENTS


async def test_sigterm_ends_open_streams_at_once(
    app: Regente, database_url: str, tmp_path: Path
) -> None:
    """O13: a deploy does not wait for open consoles."""
    process = ApiProcess(database_url, tmp_path)
    await process.start()
    async with (
        httpx2.AsyncClient(
            base_url=process.url, headers={"x-api-key": await key_of(app)}, trust_env=False
        ) as client,
        stream(client) as source,
    ):
        await next_named(source, "heartbeat")
        assert await process.terminate() == 0
        assert (
            "timeout graceful shutdown exceeded" not in process.said()
        )  # uvicorn after its shutdown timeout
        assert [frame async for frame in source] == []
