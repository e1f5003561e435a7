"""The stream with many clients, slow clients, no clients, and a database that is away."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from regente import Regente
from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.queries import LimitedDatabase
from tests.api.stream.api_process import ApiProcess
from tests.api.stream.conftest import Open, positions, put
from tests.api.stream.sse import Frame, connect, next_named, stream, take
from tests.support.eventually import eventually_async

CLIENTS = 500
KEYS = 10


async def test_a_client_that_does_not_read_is_dropped_and_loses_nothing(
    opened: Open, database_url: str
) -> None:
    """F19, I10: its memory is freed, other clients do not wait; it resumes at its position."""
    async with opened(send_seconds=1.5, ring_events=400, chunk_bytes=4096) as stream_api:
        reader, writer = await connect(stream_api.url, stream_api.key)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        async with stream(stream_api.client) as lively:
            await next_named(lively, "heartbeat")
            for _ in range(12):
                await put(database_url, *["large"] * 100, details={"text": "x" * 7000})
                await take(lively, 100, within_seconds=20)

            async def is_dropped() -> bool:
                return stream_api.feed.dropped == 1

            await eventually_async(is_dropped)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        text = (await reader.read(-1)).decode()
        writer.close()
        seen = [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: ")]
        expected = await positions(database_url)
        rest = expected[expected.index(seen[-1]) + 1 :]
        assert rest, "the kernel's buffers swallowed all of it: the client was never slow"
        async with stream(stream_api.client, seen[-1]) as source:
            assert [frame.id for frame in await take(source, len(rest))] == rest


async def test_five_hundred_clients_take_little_memory(
    app: Regente, database_url: str, tmp_path: Path
) -> None:
    """I10: an event is kept once for all clients, also when 100 of them do not read."""
    made = ApiKeys(LimitedDatabase(app.database))
    keys = [
        (await made.create(f"crowd-{number}", Role.VIEWER, by="test")).secret
        for number in range(KEYS)
    ]
    process = ApiProcess(database_url, tmp_path)
    await process.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(process.kill)
        _, first = await connect(process.url, keys[0])  # it loads modules and caches
        first.close()
        before = process.resident_bytes()
        readers = []
        for number in range(CLIENTS):
            reader, writer = await connect(process.url, keys[number % KEYS])
            stack.callback(writer.close)
            if number % 5 == 0:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
            else:
                readers.append(reader)
        for _ in range(10):
            await put(database_url, *["shared"] * 100, details={"text": "x" * 500})
        last = (await positions(database_url))[-1].encode()
        async with asyncio.timeout(60):
            await asyncio.gather(*(_read_up_to(b"id: " + last, reader) for reader in readers))
        grown = process.resident_bytes() - before
        print(f"{grown / 2**20:.0f} MiB for {CLIENTS} clients")
        assert grown < 100 * 2**20


async def test_without_clients_the_feed_is_not_queried(opened: Open) -> None:
    """I10: a disconnect is noticed; with idle clients about one query a second."""
    async with opened(linger_seconds=0.1, idle_seconds=0.2) as stream_api:
        async with stream(stream_api.client) as source:
            await next_named(source, "heartbeat")
            assert stream_api.feed.clients == 1

        async def nobody_reads() -> bool:
            return stream_api.feed.clients == 0 and stream_api.feed.ring is None

        await eventually_async(nobody_reads)
        looks = stream_api.feed.reads
        async with stream(stream_api.client) as source:
            await next_named(source, "heartbeat")
        assert stream_api.feed.reads > looks


async def test_an_idle_feed_is_queried_about_twice_a_second(opened: Open) -> None:
    """I10: the cost of consoles that stay open overnight."""
    async with opened() as stream_api, stream(stream_api.client, seconds=4.0) as source:
        await next_named(source, "heartbeat")
        began_at, looks = time.monotonic(), stream_api.feed.reads
        async for _ in source:
            pass
        assert (
            stream_api.feed.reads - looks <= 2 * (time.monotonic() - began_at) + 6
        )  # the first pauses are short


async def test_clients_above_the_limit_are_refused_with_retry_after(opened: Open) -> None:
    """F19: every resource has a bound."""
    async with opened(max_clients=1) as stream_api, stream(stream_api.client) as source:
        await next_named(source, "heartbeat")
        answer = await stream_api.client.get("/api/stream")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")


async def test_one_key_has_a_share_of_the_streams(opened: Open) -> None:
    """F19: a viewer with many tabs leaves room for others; an ended stream makes room again."""
    async with opened(max_clients_per_key=2) as stream_api:
        async with stream(stream_api.client) as first, stream(stream_api.client) as second:
            await next_named(first, "heartbeat")
            await next_named(second, "heartbeat")
            refused = await stream_api.client.get("/api/stream")
            assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
            assert "this key has 2 open streams" in refused.text

        async def is_empty() -> bool:
            return stream_api.feed.clients == 0

        await eventually_async(is_empty)
        async with stream(stream_api.client) as again:
            await next_named(again, "heartbeat")


async def test_the_stream_goes_on_after_the_database_was_away(
    opened: Open, database_url: str, server_url: str
) -> None:
    """F3, F4: on the same connection, without a lost or duplicate event."""
    async with opened() as stream_api, stream(stream_api.client) as source:
        await next_named(source, "heartbeat")
        await put(database_url, "before")
        before = await take(source, 1)
        name = str(conninfo_to_dict(database_url)["dbname"])
        async with await psycopg.AsyncConnection.connect(server_url, autocommit=True) as superuser:
            await _allow(superuser, name, False)
            looks = stream_api.feed.reads

            async def failed_to_read() -> bool:
                return stream_api.feed.reads > looks

            await eventually_async(failed_to_read)
            await _allow(superuser, name, True)
        await put(database_url, "after", "and after")
        found: list[Frame] = before + await take(source, 2, within_seconds=45)
        assert [frame.id for frame in found] == (await positions(database_url))[-3:]


async def _allow(connection: psycopg.AsyncConnection[object], database: str, allowed: bool) -> None:
    word = sql.SQL("true" if allowed else "false")
    await connection.execute(
        sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(sql.Identifier(database), word)
    )
    if not allowed:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,)
        )


async def _read_up_to(mark: bytes, reader: asyncio.StreamReader) -> None:
    """Reads and discards."""
    tail = b""
    while mark not in tail:
        chunk = await reader.read(65_536)
        assert chunk, "the stream ended"
        tail = tail[-len(mark) :] + chunk
