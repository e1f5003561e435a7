"""Applications on a real server: inside a test, and as a command that is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI

from regente.asgi.server import Ingress, ServiceNotStarted, serve_until_stopped, serving


def greeting() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def greet() -> str:
        return "hello"

    return app


async def fetch(url: str) -> object:
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
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
