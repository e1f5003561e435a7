"""Services with broken HTTP: each request ends in time, with evidence in a complete report."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from regente.conformance import Verdict, WriterOptions, examine_writer

Answer = Callable[[asyncio.StreamWriter], AsyncIterator[bytes]]


async def lies_about_its_length(writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{}"


async def speaks_something_else(writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    yield b"220 mail.example.com ESMTP\r\n"


async def closes_at_once(writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    writer.close()
    yield b""


async def drips(writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    while not writer.is_closing():
        yield b" "
        await asyncio.sleep(0.02)


async def never_stops(writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
    while not writer.is_closing():
        yield b"x" * 65536


@contextlib.asynccontextmanager
async def service(answer: Answer) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            async for piece in answer(writer):
                writer.write(piece)
                await writer.drain()
        writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with asyncio.timeout(30):  # every client has disconnected, so the responses end
            await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    ("answer", "evidence", "request_seconds"),
    [
        (lies_about_its_length, "RemoteProtocolError", 2.0),
        (speaks_something_else, "RemoteProtocolError", 2.0),
        (closes_at_once, "no answer", 2.0),
        (drips, "no complete answer within 0.1 s", 0.1),
        (never_stops, "200 with more than 1,048,576 bytes", 2.0),
    ],
)
async def test_no_answer_is_too_broken_for_a_report(
    answer: Answer, evidence: str, request_seconds: float
) -> None:
    """O22: bounded in time and size for any response."""
    async with service(answer) as url:
        report = await examine_writer(
            WriterOptions(
                url,
                "any-key",
                timeout_seconds=1.0,
                request_seconds=request_seconds,
                oversize_bytes=2 << 20,
            )
        )
    assert {finding.verdict for finding in report.findings if finding.required} <= {
        Verdict.FAIL,
        Verdict.SKIPPED,
    }
    assert evidence in report.findings[0].evidence
    assert not report.conformant


async def test_a_name_that_no_resolver_takes_is_a_finding() -> None:
    """O22: no exception."""
    report = await examine_writer(
        WriterOptions(f"http://{'a' * 70}.invalid", "any-key", request_seconds=1.0)
    )
    assert report.findings[0].verdict is Verdict.FAIL
