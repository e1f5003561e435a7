"""`regente conformance`: a table for people, JSON for programs, an exit code for scripts."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from regente.asgi.server import serving
from regente.cli import main
from tests.conformance import worker_app, writer_app
from tests.conformance.worker_app import WorkerApp
from tests.conformance.writer_app import WriterApp


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """The command sets up the process's logs; restore them for the next test."""
    root, client = logging.getLogger(), logging.getLogger("httpx2")
    handlers, level, client_level = root.handlers, root.level, client.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    client.setLevel(client_level)
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGENTE_CONFORMANCE_PROXY_PASSWORD", "from-the-environment")


async def test_a_conformant_worker_ends_with_0_and_a_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """O21: one line per check, and a total at the end."""
    worker = WorkerApp()
    async with serving(worker.app()) as url:
        words = [
            "conformance",
            "worker",
            url,
            "--api-key",
            worker_app.KEY,
            "--storage-domain",
            f"{url}/storage",
        ]
        words += [
            "--proxy",
            "proxy.example.com:8080",
            "--proxy-username",
            "user",
            "--start",
            "2025-02-01",
            "--end",
            "2025-02-02",
        ]
        words += ["--format", "image", "--languages", "pt, en", "--timeout", "5"]
        code = await asyncio.to_thread(main, words)
    out, err = capsys.readouterr()
    lines = out.strip().splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["CHECK", "SECTION", "VERDICT", "EVIDENCE"]
    assert lines[-1] == f"worker {url}: conformant; 28 checks: 28 pass"
    assert len(lines) == 1 + 28 + 2
    assert worker.sessions[-1]["proxy"]["password"] == "from-the-environment"
    assert "from-the-environment" not in out
    filters = json.loads(worker.scrapes[0])["filters"]
    assert filters["date_range"] == {"start": "2025-02-01", "end": "2025-02-02"}
    assert (filters["format"], filters["languages"]) == ("image", ["pt", "en"])


async def test_a_broken_writer_ends_with_1_and_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """O22: the same findings as JSON."""
    monkeypatch.setenv("REGENTE_CONFORMANCE_API_KEY", writer_app.KEY)
    async with serving(WriterApp(frozenset({"loses a row"})).app()) as url:
        code = await asyncio.to_thread(
            main, ["conformance", "writer", url, "--json", "--timeout", "5"]
        )
    report = json.loads(capsys.readouterr().out)
    assert code == 1
    assert (report["service"], report["conformant"]) == ("writer", False)
    assert [one["name"] for one in report["checks"] if one["verdict"] == "FAIL"] == [
        "progress adds up"
    ]
    assert set(report["checks"][0]) == {"name", "section", "required", "verdict", "evidence"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["worker", "localhost:8001"], "http:// or https://"),
        (["worker", "http://user:word@host"], "holds a user or a password"),
        (
            ["worker", "http://host", "--start", "2025-02-02", "--end", "2025-02-01"],
            "ends (2025-02-01) before it starts",
        ),
        (["worker", "http://host", "--proxy", "user:word@host:1"], "holds a user or a password"),
        (["worker", "http://host", "--languages", ","], "languages"),
        (["worker", "http://host", "--storage-domain", "ftp://host"], "http:// or https://"),
        (["writer", "http://host", "--table", ""], "table"),
        (["writer", "http://host", "--source-url", "file:///etc/passwd"], "http:// or https://"),
    ],
)
def test_options_that_make_no_request_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """O21, O22: wrong usage exits with 2 and one line, before any request."""
    monkeypatch.setenv("REGENTE_CONFORMANCE_API_KEY", "any")
    code = main(["conformance", *words])
    assert code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("key", [None, "", "kéy"])
def test_a_key_is_needed(key: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    given = [] if key is None else ["--api-key", key]
    assert main(["conformance", "worker", "http://host", *given]) == 2
    assert "key" in capsys.readouterr().err
