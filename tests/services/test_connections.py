"""Connections that are slow, silent or many: they end, and others are answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from regente.asgi.connections import ConnectionLimits
from regente.asgi.request_body import read_body
from regente.asgi.server import serving
from tests.support.raw_http import RawClient

PATIENT = 60.0
"""Seconds after which a test gives up; what is healthy takes milliseconds."""
COMPLETE = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
ENDLESS = b"GET /endless HTTP/1.1\r\nhost: here\r\n\r\n"
HALF_HEADERS = b"GET / HTTP/1.1\r\nhost: he"
HALF_BODY = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\nhalf"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo:
    """Reads the body, and answers with its length; `/endless` never ends its answer."""

    def __init__(self) -> None:
        self.bodies = 0
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        self.bodies += 1
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["path"] == "/endless":
            await self._send_endlessly(receive, send)
        else:
            await send({"type": "http.response.body", "body": str(size).encode()})

    async def _send_endlessly(self, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(receive())
        try:
            while not gone.done():
                await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        finally:
            self.ended.set()


@asynccontextmanager
async def echoing(limits: ConnectionLimits) -> AsyncIterator[tuple[Echo, int]]:
    app = Echo()
    async with serving(app, limits=limits) as url:
        yield app, int(url.rpartition(":")[2])


async def opened(stack: AsyncExitStack, port: int, sent: bytes = b"") -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    stack.callback(writer.close)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def answer_of(port: int) -> bytes:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENT):
        reader, _ = await opened(stack, port, COMPLETE)
        return await reader.readline()


async def rest_of(connection: Connection) -> bytes:
    """What the server sends until it closes the connection."""
    async with asyncio.timeout(PATIENT):
        try:
            return await connection[0].read()
        except ConnectionError:
            return b""


async def stays_open(reader: asyncio.StreamReader, *, seconds: float) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await reader.read(1)


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        (ConnectionLimits(header_seconds=0.1), b""),
        (ConnectionLimits(header_seconds=0.1), HALF_HEADERS),
        (ConnectionLimits(body_seconds=0.1), HALF_BODY),
    ],
    ids=["silent", "half of the headers", "half of the body"],
)
async def test_a_request_that_does_not_come_is_ended(limits: ConnectionLimits, sent: bytes) -> None:
    """F19: at its deadline, with 408 if no response has begun."""
    async with echoing(limits) as (_, port), AsyncExitStack() as stack:
        ended = await rest_of(await opened(stack, port, sent))
        assert ended.startswith(b"HTTP/1.1 408") == (sent != HALF_BODY)


async def test_a_second_request_has_a_deadline_of_its_own() -> None:
    """F19: after a complete one on the same connection, also when its beginning came with it."""
    limits = ConnectionLimits(header_seconds=1.0)
    async with echoing(limits) as (_, port), AsyncExitStack() as stack:
        for first, then in ((COMPLETE, HALF_HEADERS), (COMPLETE + HALF_HEADERS, b"")):
            reader, writer = await opened(stack, port, first)
            async with asyncio.timeout(PATIENT):
                assert b"200" in await reader.readline()
            writer.write(then)
            assert (await rest_of((reader, writer))).endswith(b"content-length: 0\r\n\r\n")


async def test_a_body_that_keeps_its_rate_may_take_longer() -> None:
    """F19: its end comes long after the deadline of a silent body."""
    limits = ConnectionLimits(body_seconds=0.2, body_bytes_per_second=10)
    async with echoing(limits) as (app, port), AsyncExitStack() as stack:
        head = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\n"
        reader, writer = await opened(stack, port, head + 900 * b"x")
        await stays_open(reader, seconds=1.0)
        writer.write(100 * b"x")
        async with asyncio.timeout(PATIENT):
            assert b"200" in await reader.readline()
        assert app.bodies == 1


async def test_a_body_that_breaks_off_is_not_taken_for_the_whole() -> None:
    """F19: the part would be valid JSON of another meaning."""

    async def broken_off() -> Message:
        return messages.pop(0)

    messages: list[Message] = [
        {"type": "http.request", "body": b"12", "more_body": True},
        {"type": "http.disconnect"},
    ]
    with pytest.raises(ClientDisconnect):
        await read_body(broken_off, 100)


CHUNKED = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (CHUNKED + b"content-length: 9\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200),
        (CHUNKED + b"content-length: x\r\n\r\n0\r\n\r\n", 400),
        (CHUNKED + b"transfer-encoding: identity\r\n\r\n0\r\n\r\n", 400),
        (CHUNKED + b"\r\n-3\r\nabc\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\na", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\n folded: b\r\na: \x00\r\n\r\n", 400),
    ],
    ids=range(10),
)
async def test_a_request_has_one_length(sent: bytes, status: int) -> None:
    """O18: chunks win over a length, and a request of two meanings is refused."""
    async with (
        asyncio.timeout(PATIENT),
        echoing(ConnectionLimits()) as (_, port),
        RawClient.to(f"http://127.0.0.1:{port}") as client,
    ):
        assert (await client.send_bytes(sent))[0] == status


async def test_an_idle_connection_is_kept_for_the_next_request() -> None:
    """F19: the deadline for headers begins with their first byte."""
    limits = ConnectionLimits(header_seconds=1.0)
    async with echoing(limits) as (app, port), AsyncExitStack() as stack:
        reader, writer = await opened(stack, port, COMPLETE)
        async with asyncio.timeout(PATIENT):
            await reader.readuntil(b"0\r\n\r\n")
        await stays_open(reader, seconds=2.0)
        writer.write(COMPLETE)
        async with asyncio.timeout(PATIENT):
            assert b"200" in await reader.readline()
        assert app.bodies == 2


@pytest.mark.parametrize("sent", [b"", HALF_HEADERS, HALF_BODY])
async def test_many_half_requests_leave_room_for_whole_ones(sent: bytes) -> None:
    """F19: when all connections are used, the one that waited longest ends."""
    limits = ConnectionLimits(total=20)
    async with echoing(limits) as (_, port), AsyncExitStack() as stack:
        held = [await opened(stack, port, sent) for _ in range(60)]
        assert b"200" in await answer_of(port)
        await rest_of(held[0])
        assert not held[-1][0].at_eof()


@pytest.mark.parametrize(
    "sent", [ENDLESS, COMPLETE + ENDLESS + COMPLETE], ids=["slow readers", "pipelined"]
)
async def test_clients_that_do_not_read_leave_room_for_others(sent: bytes) -> None:
    """F19: when all connections are used by answers that are not read."""
    async with echoing(ConnectionLimits(total=20)) as (_, port), AsyncExitStack() as stack:
        held = [await opened(stack, port, sent) for _ in range(20)]
        for reader, _ in held:  # its answer has begun; the rest stays unread
            async with asyncio.timeout(PATIENT):
                assert b"200" in await reader.readline()
        async with asyncio.timeout(PATIENT):
            while b"200" not in await _answer_if_any(port):
                await asyncio.sleep(0.01)


async def test_many_at_once_stay_below_the_limit() -> None:
    """F19: each new connection ends another one, also when they come together."""
    async with echoing(ConnectionLimits(total=20)) as (_, port), AsyncExitStack() as stack:
        held = await asyncio.gather(*(opened(stack, port, HALF_HEADERS) for _ in range(200)))
        assert b"200" in await answer_of(port)
        rests = [asyncio.ensure_future(rest_of(one)) for one in held]
        async with asyncio.timeout(PATIENT):
            while sum(one.done() for one in rests) < 180:
                await asyncio.sleep(0.01)
        for one in rests:
            one.cancel()


async def test_one_client_has_a_limit() -> None:
    """F19: its further connections are closed at once, and it may open others when it ends some."""
    limits = ConnectionLimits(per_client=5)
    async with echoing(limits) as (_, port), AsyncExitStack() as stack:
        held = [await opened(stack, port, COMPLETE) for _ in range(5)]
        for reader, _ in held:
            async with asyncio.timeout(PATIENT):
                assert b"200" in await reader.readline()
        assert await rest_of(await opened(stack, port)) == b""
        held[0][1].close()
        for _ in range(100):
            if b"200" in await _answer_if_any(port):
                break
        else:
            pytest.fail("no further connection was accepted")


async def test_a_client_that_reads_nothing_is_disconnected() -> None:
    """F19: an endless response ends when its reader has stopped."""
    limits = ConnectionLimits(write_seconds=0.1)
    async with echoing(limits) as (app, port), AsyncExitStack() as stack:
        await opened(stack, port, ENDLESS)
        async with asyncio.timeout(PATIENT):
            await app.ended.wait()


async def _answer_if_any(port: int) -> bytes:
    try:
        return await answer_of(port)
    except ConnectionError:
        return b""
