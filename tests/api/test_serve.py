"""`regente serve` and `regente keys`, as real processes and commands."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from regente.cli import main
from tests.api.conftest import body_of
from tests.api.processes import caller, command


async def test_the_first_start_prints_a_key_and_a_link_and_later_ones_do_not(
    database_url: str, tmp_path: Path
) -> None:
    """O18: the first sign-in."""
    async with command(database_url, tmp_path) as told, caller(told["url"], {}) as client:
        assert body_of(await client.get("/api/health")) == {"status": "ok"}
        assert (await client.get("/api/missions")).status_code == 401
        token = told["sign_in"].partition("#token=")[2]
        assert (
            body_of(await client.post("/api/session", json={"token": token}), 201)["role"]
            == "admin"
        )
        assert body_of(await client.get("/api/missions"))["items"] == []
        assert (
            await client.get("/api/keys", headers={"x-api-key": told["api_key"]})
        ).status_code == 200
    log = (tmp_path / "serve.log").read_text("utf-8")
    assert token not in log
    assert told["api_key"] not in log
    async with command(database_url, tmp_path, "--sign-in") as again:
        assert "sign_in" in again
        assert "api_key" not in again


async def test_silent_connections_by_the_hundred_leave_room_for_others(
    database_url: str, tmp_path: Path
) -> None:
    """F19: more half requests than the process may open files; the health check still answers."""
    async with (
        command(database_url, tmp_path, open_files=256) as told,
        AsyncExitStack() as stack,
    ):
        host, port = urlsplit(told["url"]).netloc.split(":")
        for number in range(400):
            _, writer = await asyncio.open_connection(host, int(port))
            stack.callback(writer.close)
            writer.write(b"GET /api/health HTTP/1.1\r\nx-half: ")
            if number % 50 == 49:
                async with caller(told["url"], {}) as client:
                    assert body_of(await client.get("/api/health")) == {"status": "ok"}


async def said(capsys: pytest.CaptureFixture[str], url: str, *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = await asyncio.to_thread(main, [*words, "--database-url", url, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out or err)


async def test_a_bind_that_others_reach_is_refused_without_authentication(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """O18: closed by default."""
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.com"):
        code, answer = await said(
            capsys, database_url, "serve", "--host", host, "--port", "0", "--no-auth"
        )
        assert (code, answer["error"]["code"]) == (2, "INVALID_INPUT")
        assert "loopback" in answer["error"]["message"]
    code, answer = await said(capsys, database_url, "serve", "--path-prefix", "regente")
    assert code == 2


async def test_keys_are_made_listed_linked_and_revoked_on_the_command_line(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """O18: regente keys."""
    code, made = await said(capsys, database_url, "keys", "create", "ana", "--role", "admin")
    assert (code, made["role"]) == (0, "admin")
    code, listed = await said(capsys, database_url, "keys", "list")
    assert [(key["name"], key["status"]) for key in listed] == [("ana", "valid")]
    assert made["api_key"] not in json.dumps(listed)
    assert made["id"] == listed[0]["id"]
    code, link = await said(
        capsys, database_url, "keys", "link", "--url", "https://regente.example.com/"
    )
    assert link["sign_in"].startswith("https://regente.example.com/sign-in#token=")
    assert (await said(capsys, database_url, "keys", "create", "bob", "--role", "king"))[0] == 2
    assert (await said(capsys, database_url, "keys", "revoke", "ana", "--yes"))[1]["error"][
        "code"
    ] == "ILLEGAL_TRANSITION"
    await said(capsys, database_url, "keys", "create", "bob", "--role", "admin")
    assert (await said(capsys, database_url, "keys", "revoke", "ana", "--yes"))[0] == 0
    assert (await said(capsys, database_url, "keys", "revoke", "unknown", "--yes"))[0] == 1
