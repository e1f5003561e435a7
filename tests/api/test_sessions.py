"""Console sessions: what ends them, and what their cookie and links are made of."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from regente import Regente
from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.access.sessions import COOKIE, SECURE_COOKIE
from regente.api.app import create_app
from regente.api.config import ApiConfig
from regente.api.queries import LimitedDatabase
from regente.asgi.server import Ingress, serving
from regente.cli.serve import _ingress
from regente.engine.errors import InvalidInput
from tests.api.conftest import Served, body_of, with_config
from tests.api.processes import caller, command
from tests.api.stream.sse import next_named, stream


@asynccontextmanager
async def signed_in(api: Served, role: str = "viewer") -> AsyncIterator[httpx2.AsyncClient]:
    """A browser with a session; it sends its CSRF token with every request."""
    key = getattr(api, role).headers["x-api-key"]
    async with httpx2.AsyncClient(base_url=api.url, trust_env=False, timeout=30) as browser:
        made = body_of(await browser.post("/api/session", json={"api_key": key}), 201)
        browser.headers["x-csrf-token"] = made["csrf_token"]
        yield browser


async def sessions_of(browser: httpx2.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(await browser.get("/api/session/all"))
    return found


async def test_ones_sessions_are_listed_and_ended_one_by_one(api: Served) -> None:
    """O18: a lost laptop's session ends without the key."""
    async with signed_in(api) as here, signed_in(api) as lost, signed_in(api, "admin") as other:
        listed = await sessions_of(here)
        assert [one["current"] for one in listed] == [True, False]
        assert {one["address"] for one in listed} == {"127.0.0.1"}
        foreign = (await sessions_of(other))[0]["id"]
        assert (await here.delete(f"/api/session/all/{foreign}")).status_code == 404
        gone = listed[1]["id"]
        assert (await here.delete(f"/api/session/all/{gone}")).status_code == 204
        assert (await here.delete(f"/api/session/all/{gone}")).status_code == 404
        assert (await lost.get("/api/session")).status_code == 401
        assert len(await sessions_of(here)) == 1
        assert (await other.get("/api/session")).status_code == 200


@with_config(session_idle_minutes=60)
async def test_a_session_that_is_not_used_ends(api: Served, database_url: str) -> None:
    """O18: before its hours are over, and not while it is in use."""

    async def idle_for(minutes: int) -> None:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            await connection.execute(
                "UPDATE regente.api_sessions "
                "SET created_at = regente.clock() - make_interval(mins => %(minutes)s), "
                "    last_used_at = regente.clock() - make_interval(mins => %(minutes)s)",
                {"minutes": minutes},
            )

    async with signed_in(api) as browser:
        for minutes, status in ((59, 200), (59, 200), (61, 401), (0, 200)):
            await idle_for(minutes)
            assert (await browser.get("/api/session")).status_code == status


@pytest.mark.parametrize("ending", ["sign out", "end from another", "revoke the key"])
async def test_streams_end_with_their_session(api: Served, ending: str) -> None:
    """O18, F19: at once, and others go on."""
    async with signed_in(api) as browser, stream(browser) as source, stream(api.viewer) as kept:
        await next_named(source, "heartbeat")
        await next_named(kept, "heartbeat")
        if ending == "sign out":
            assert (await browser.delete("/api/session")).status_code == 204
        elif ending == "end from another":
            (only,) = await sessions_of(api.viewer)
            assert (await api.viewer.delete(f"/api/session/all/{only['id']}")).status_code == 204
        else:
            keys = body_of(await api.admin.get("/api/keys"))
            mine = next(one["id"] for one in keys if one["name"] == "the-viewer")
            assert (await api.admin.delete(f"/api/keys/{mine}")).status_code == 204
        async with asyncio.timeout(30):
            await anext((frame async for frame in source if frame.name == "never"), None)
        if ending != "revoke the key":
            await api.operator.post("/api/orchestrator/stop")
            assert (await next_named(kept, "message")).data


ELSEWHERE = {
    "revoked": "UPDATE regente.api_keys SET revoked_at = regente.clock() WHERE name = 'the-viewer'",
    "expired": "UPDATE regente.api_keys SET expires_at = regente.clock() WHERE name = 'the-viewer'",
    "session over": "UPDATE regente.api_sessions SET expires_at = regente.clock()",
    "session ended": "DELETE FROM regente.api_sessions",
    "idle": "UPDATE regente.api_sessions SET created_at = regente.clock() - interval '1 day', "
    "last_used_at = regente.clock() - interval '1 day'",
}


@pytest.mark.parametrize("change", ELSEWHERE)
async def test_streams_end_also_by_what_another_process_did(
    api: Served, database_url: str, change: str
) -> None:
    """O18, F19: the command line, another API process, or time; others go on."""
    async with (
        signed_in(api) as browser,
        stream(browser) as source,
        stream(api.operator) as kept,
    ):
        await next_named(source, "heartbeat")
        await next_named(kept, "heartbeat")
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            await connection.execute(ELSEWHERE[change].encode())
        async with asyncio.timeout(30):
            await anext((frame async for frame in source if frame.name == "never"), None)
        assert (await browser.get("/api/session")).status_code == 401
        await api.operator.post("/api/orchestrator/stop")
        assert (await next_named(kept, "message")).data


async def test_over_https_a_planted_cookie_is_not_read(database_url: str, tmp_path: Path) -> None:
    """O18: a sibling host can set one without the prefix, for a session of its own choice."""
    certificate, key = _certificate(tmp_path)
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    async with (
        command(database_url, tmp_path, *options) as told,
        httpx2.AsyncClient(
            base_url=told["url"],
            verify=ssl.create_default_context(cafile=str(certificate)),
            trust_env=False,
        ) as browser,
    ):
        made = await browser.post("/api/session", json={"api_key": told["api_key"]})
        token = made.cookies[SECURE_COOKIE]
        browser.cookies.clear()
        for name, status in ((COOKIE, 401), (SECURE_COOKIE, 200)):
            sent = {"cookie": f"{name}={token}"}
            assert (await browser.get("/api/session", headers=sent)).status_code == status


async def test_a_sign_in_link_has_no_address_from_the_request(api: Served) -> None:
    """O18: a forged Host header would send the one-time token to another server."""
    keys = body_of(await api.admin.get("/api/keys"))
    sent = api.admin.post(
        f"/api/keys/{keys[0]['id']}/sign-in-link", headers={"host": "evil.example"}
    )
    assert body_of(await sent, 201)["url"].startswith(f"{api.url}/sign-in#token=")


@with_config(public_url="https://regente.example.com/console")
async def test_a_public_url_is_used_for_links_and_makes_cookies_secure(api: Served) -> None:
    """O18: behind a proxy that ends TLS."""
    keys = body_of(await api.admin.get("/api/keys"))
    link = body_of(await api.admin.post(f"/api/keys/{keys[0]['id']}/sign-in-link"), 201)
    assert link["url"].startswith("https://regente.example.com/console/sign-in#token=")
    key = api.viewer.headers["x-api-key"]
    made = await api.anonymous.post("/api/session", json={"api_key": key})
    cookie = made.headers["set-cookie"]
    assert cookie.startswith(f"{SECURE_COOKIE}=")
    assert made.headers["strict-transport-security"].startswith("max-age=")
    assert "Secure" in cookie
    assert "Path=/;" in cookie + ";"


@pytest.mark.parametrize("trusted", [(), ("127.0.0.1",)], ids=["untrusted", "trusted"])
async def test_only_a_trusted_proxy_names_the_client(
    app: Regente, trusted: tuple[str, ...]
) -> None:
    """O18: a client that invents addresses is slowed down as one."""
    config = ApiConfig(wrong_keys_per_second=0.001, wrong_key_burst=2)
    ingress = Ingress(trusted_proxies=trusted)
    async with (
        serving(create_app(app, config), drain_seconds=0, ingress=ingress) as url,
        httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60) as client,
    ):
        answers = [
            await client.get(
                "/api/missions", headers={"x-api-key": "no", "x-forwarded-for": f"192.0.2.{last}"}
            )
            for last in range(4)
        ]
    wanted = [401, 401, 401, 401] if trusted else [401, 401, 429, 429]
    assert [one.status_code for one in answers] == wanted


def test_trusted_proxies_are_addresses_and_networks() -> None:
    """O18: several in one variable, in both common forms; a name is refused."""
    assert _ingress(None, None, ["10.0.0.1, 10.1.0.0/16 ::1"]).trusted_proxies == (
        "10.0.0.1",
        "10.1.0.0/16",
        "::1",
    )
    with pytest.raises(InvalidInput, match=r"proxy\.example"):
        _ingress(None, None, ["proxy.example"])


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "X-Real-IP", "Via", "Forwarded", "X-Forwarded-Host"]
)
@with_config(authentication=False)
async def test_without_authentication_no_proxy_is_served(api: Served, header: str) -> None:
    """O18: a reverse proxy before `--no-auth` would make everyone an admin."""
    assert (await api.anonymous.get("/api/missions")).status_code == 200
    refused = await api.anonymous.get("/api/missions", headers={header: "192.0.2.1"})
    assert refused.status_code == 401


@with_config(authentication=False)
async def test_without_authentication_a_proxy_that_adds_no_header_is_not_served(
    api: Served,
) -> None:
    """O18: nginx as it is installed sends the upstream's own name, HTTP/1.0 and nothing else."""
    host, port = urlsplit(api.url).netloc.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /api/missions HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
    assert b" 401 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


@pytest.mark.skipif(os.getuid() != 0, reason="only root starts processes of another user")
@with_config(authentication=False)
async def test_without_authentication_other_users_of_the_machine_are_not_served(
    api: Served,
) -> None:
    """O18: a proxy runs as a user of its own, and other people do, too."""
    host, port = urlsplit(api.url).netloc.split(":")
    request = f"GET /api/missions HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n"
    script = f"exec 3<>/dev/tcp/{host}/{port}; printf '{request}' >&3; head -1 <&3"
    for user, status in ((0, b" 200 "), (65_534, b" 401 ")):
        process = await asyncio.create_subprocess_exec(
            "/bin/bash", "-c", script, stdout=asyncio.subprocess.PIPE, user=user, cwd="/"
        )
        answer, _ = await process.communicate()
        assert status in answer


async def test_the_command_serves_https(database_url: str, tmp_path: Path) -> None:
    """O18: with --tls-cert and --tls-key; the cookie is secure, browsers come back over HTTPS."""
    certificate, key = _certificate(tmp_path)
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    async with (
        command(database_url, tmp_path, *options) as told,
        httpx2.AsyncClient(
            base_url=told["url"],
            verify=ssl.create_default_context(cafile=str(certificate)),
            trust_env=False,
        ) as browser,
    ):
        assert told["url"].startswith("https://127.0.0.1:")
        health = await browser.get("/api/health")
        assert health.headers["strict-transport-security"].startswith("max-age=")
        made = await browser.post("/api/session", json={"api_key": told["api_key"]})
        assert made.headers["set-cookie"].startswith(f"{SECURE_COOKIE}=")
        assert (await browser.get("/api/missions")).status_code == 200
    async with command(database_url, tmp_path) as plain, caller(plain["url"], {}) as client:
        answer = await client.post("/api/session", json={"api_key": told["api_key"]})
        assert answer.headers["set-cookie"].startswith(f"{COOKIE}=")
        assert "strict-transport-security" not in answer.headers


async def test_a_session_knows_its_keys_role(app: Regente) -> None:
    """O18: a session is never more than its key."""
    made = await ApiKeys(LimitedDatabase(app.database)).create("ana", Role.VIEWER, by="test")
    async with (
        serving(create_app(app), drain_seconds=0) as url,
        httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60) as browser,
    ):
        session = body_of(await browser.post("/api/session", json={"api_key": made.secret}), 201)
        csrf = {"x-csrf-token": session["csrf_token"]}
        assert (await browser.post("/api/orchestrator/stop", headers=csrf)).status_code == 403


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
