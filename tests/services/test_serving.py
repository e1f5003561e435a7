"""Applications on a real server: inside a test, and as a command that is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI, Request

from regente.asgi.connections import ConnectionLimits
from regente.asgi.server import Ingress, ServiceNotStarted, serve_until_stopped, serving

PATIENT = 60.0
"""Seconds after which a test gives up; what is healthy takes milliseconds."""


def greeting() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def greet() -> str:
        return "hello"

    @app.post("/length")
    async def length(request: Request) -> int:
        return len(await request.body())

    return app


async def fetch(url: str) -> object:
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENT) as client:
        return (await client.get(url)).json()


async def test_an_application_answers_while_it_is_served() -> None:
    async with serving(greeting()) as url:
        assert await fetch(url) == "hello"
    with pytest.raises(httpx2.ConnectError):
        await fetch(url)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_command_serves_until_it_is_stopped(sign: signal.Signals) -> None:
    announced: asyncio.Queue[str] = asyncio.Queue()
    running = asyncio.create_task(
        serve_until_stopped(greeting(), "127.0.0.1", 0, announced.put_nowait)
    )
    assert await fetch(await announced.get()) == "hello"
    os.kill(os.getpid(), sign)
    await asyncio.wait_for(running, 30)


async def test_a_taken_port_is_told_in_one_line() -> None:
    async with serving(greeting()) as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(
            OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"
        ):
            async with serving(greeting(), port=port):
                pass


async def test_a_service_that_cannot_start_does_not_end_the_program() -> None:
    @asynccontextmanager
    async def broken(app: FastAPI) -> AsyncIterator[None]:
        if app.title != "healthy":
            raise ValueError("no database")
        yield

    with pytest.raises(ServiceNotStarted):
        async with serving(FastAPI(lifespan=broken)):
            pass


async def test_tls_has_forward_secrecy_in_both_versions(tmp_path: Path) -> None:
    """O18: TLS 1.2 and 1.3 with authenticated encryption, and no older version."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    _self_signed(certificate, key)
    ingress = Ingress(certificate=certificate, private_key=key)
    async with serving(greeting(), ingress=ingress) as url:
        port = int(url.rpartition(":")[2])
        for version, suites in (
            (ssl.TLSVersion.TLSv1_2, ("ECDHE-ECDSA-AES", "ECDHE-ECDSA-CHACHA20")),
            (ssl.TLSVersion.TLSv1_3, ("TLS_AES", "TLS_CHACHA20")),
        ):
            client = ssl.create_default_context(cafile=certificate)
            client.minimum_version = client.maximum_version = version
            _, writer = await asyncio.open_connection("localhost", port, ssl=client)
            suite = writer.get_extra_info("cipher")[0]
            assert suite.startswith(suites)
            assert "GCM" in suite or "CHACHA20" in suite
            writer.close()
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("AES128-SHA:ECDHE-ECDSA-AES128-SHA")
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("localhost", port, ssl=old)


@asynccontextmanager
async def over_tls(tmp_path: Path, limits: ConnectionLimits) -> AsyncIterator[int]:
    """The port of a server over HTTPS."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    _self_signed(certificate, key)
    ingress = Ingress(certificate=certificate, private_key=key)
    async with serving(greeting(), limits=limits, ingress=ingress) as url:
        yield int(url.rpartition(":")[2])


HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.mark.parametrize("sent", [b"", HALF_HELLO, b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_handshake_that_does_not_come_is_ended(tmp_path: Path, sent: bytes) -> None:
    """F19: at the deadline for headers, or at once if it is none."""
    async with over_tls(tmp_path, ConnectionLimits(header_seconds=0.2)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        async with asyncio.timeout(PATIENT):
            assert b"HTTP" not in await _rest_of(reader)
        writer.close()


async def test_half_handshakes_leave_room_for_whole_ones(tmp_path: Path) -> None:
    """F19: they count, and when all connections are used the oldest ends."""
    async with over_tls(tmp_path, ConnectionLimits(total=20)) as port, AsyncExitStack() as stack:
        held = []
        for _ in range(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            writer.write(HALF_HELLO)
            held.append(reader)
        assert await fetch(f"https://127.0.0.1:{port}") == "hello"
        async with asyncio.timeout(PATIENT):
            await asyncio.gather(*(_rest_of(reader) for reader in held[:40]))
        assert not held[-1].at_eof()


async def test_many_handshakes_at_once_stay_below_the_limit(tmp_path: Path) -> None:
    """F19: each new connection ends another one, also when they come together."""
    async with over_tls(tmp_path, ConnectionLimits(total=20)) as port, AsyncExitStack() as stack:
        opening = [asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        ends = []
        for reader, writer in await asyncio.gather(*opening):
            stack.callback(writer.close)
            ends.append(asyncio.ensure_future(_rest_of(reader)))
        assert await fetch(f"https://127.0.0.1:{port}") == "hello"
        async with asyncio.timeout(PATIENT):
            while sum(one.done() for one in ends) < 180:
                await asyncio.sleep(0.01)
        assert await fetch(f"https://127.0.0.1:{port}") == "hello"
        for one in ends:
            one.cancel()


async def test_one_client_has_a_limit_of_handshakes(tmp_path: Path) -> None:
    """F19: those that are over, or became connections, do not count twice."""
    async with over_tls(tmp_path, ConnectionLimits(per_client=5)) as port:
        for _ in range(20):
            assert await fetch(f"https://127.0.0.1:{port}") == "hello"
        async with AsyncExitStack() as stack:
            for _ in range(5):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
            refused, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            async with asyncio.timeout(PATIENT):
                assert await _rest_of(refused) == b""


async def test_a_request_that_comes_with_the_handshake_is_answered(tmp_path: Path) -> None:
    """O18: whole, and a long body, too."""
    body = b"x" * 3_000_000
    async with (
        over_tls(tmp_path, ConnectionLimits()) as port,
        httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENT) as client,
    ):
        for _ in range(3):
            sent = await client.post(f"https://127.0.0.1:{port}/length", content=body)
            assert sent.json() == len(body)


async def _rest_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def _self_signed(certificate: Path, key: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, private.public_key(), 1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
