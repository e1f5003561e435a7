"""O21: `regente worker` and `regente sandbox` as separate processes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regente.cli import main
from regente.services.sandbox import Sandbox
from tests.services.filters import filters
from tests.services.worker.conftest import Client, address
from tests.services.worker.processes import worker_process

pytestmark = pytest.mark.asyncio(loop_scope="module")


def regente(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "regente", *words], stdout=subprocess.PIPE, text=True
    )


async def test_the_sandbox_says_where_it_is_and_stops_when_told() -> None:
    words = ("sandbox", "--json", "--port", "0", "--proxies", "2", "--seed", "5")
    with regente(*words) as process:
        assert process.stdout is not None
        places = json.loads(process.stdout.readline())
        assert [one["name"] for one in places["proxies"]] == ["proxy-1", "proxy-2"]
        client = Client(places["library_url"])
        total = (
            await client.http.get("/known-total?start=2025-01-10&end=2025-01-10&languages=pt")
        ).json()
        await client.http.aclose()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    async with Sandbox(proxies=0, seed=5) as same:
        assert total == {"total": same.total(filters())}


async def test_a_worker_without_its_settings_says_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGENTE_WORKER_API_KEY", "canary")
    monkeypatch.delenv("REGENTE_WORKER_DATA_DIR", raising=False)
    monkeypatch.setattr(
        "regente.cli.command.configure_logs", lambda **_: None
    )  # it would outlive the test
    assert await asyncio.to_thread(main, ["worker", "--target", "not a url"]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert all(
        name in err
        for name in ("--data-dir or REGENTE_WORKER_DATA_DIR", "REGENTE_WORKER_API_KEY", "--target")
    )
    assert "canary" not in err


async def test_a_worker_makes_a_key_when_it_has_none_and_writes_no_secret_anywhere_else(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    proxy = sandbox.proxies[0]
    with worker_process(tmp_path / "worker", sandbox.library_url, api_key=None) as process:
        told = process.announced
        assert told["storage_domain"] == f"{told['url']}/storage"
        client = Client(process.url, told["api_key"])
        await client.http.post(
            "/session", json={"proxy": address(proxy) | {"password": "a-canary"}}
        )
        await client.until_session("disconnected")
        await client.http.post(
            "/session", json={"proxy": address(proxy) | {"server": "", "password": "a-canary"}}
        )
        await client.ready_session(proxy)
        await client.finished(await client.start(filters()))
        await client.http.aclose()
        assert process.stop(signal.SIGINT) == 0
    log = process.log.read_bytes()
    assert b"is completed" in log
    kept = b"".join(
        path.read_bytes() for path in (tmp_path / "worker").rglob("*") if path.is_file()
    )
    assert not [
        secret
        for secret in (told["api_key"], "a-canary", proxy.password)
        if secret.encode() in log + kept
    ]
