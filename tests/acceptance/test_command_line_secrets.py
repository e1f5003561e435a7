"""No secret stays on a process's command line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from regente.cli.argv import without_secrets
from tests.support.eventually import eventually_async

URL = "postgresql://ana:canary@127.0.0.1/work"


@pytest.mark.parametrize(
    ("words", "kept", "names"),
    [
        (
            ["tasks", "list", "--database-url", URL, "--json"],
            ["tasks", "list", "--json"],
            "DATABASE",
        ),
        ([f"--database-url={URL}", "tasks", "list"], ["tasks", "list"], "DATABASE"),
        (["serve", "--database-url", "host=x password=canary"], ["serve"], "DATABASE"),
        (["serve", "--database-url", "postgresql://[canary"], ["serve"], "DATABASE"),
        (["serve", "--database-url", "host=x sslkey=k sslpassword=canary"], ["serve"], "DATABASE"),
        (["serve", "--database-url", "postgresql://x/y?sslpassword=canary"], ["serve"], "DATABASE"),
        (["conformance", "worker", "--api-key", "canary"], ["conformance", "worker"], "API_KEY"),
        (["conformance", "writer", "--api-key=canary"], ["conformance", "writer"], "API_KEY"),
    ],
)
def test_secrets_become_variables(words: list[str], kept: list[str], names: str) -> None:
    """S7: in both forms of an option, wherever it stands."""
    found, variables = without_secrets(words)
    assert found == kept
    assert variables
    assert all(names in name and "canary" in value for name, value in variables.items())


@pytest.mark.parametrize(
    "words",
    [
        ["tasks", "list", "--database-url", "postgresql://ana@127.0.0.1/work"],
        ["tasks", "list", "--database-url", ""],
        ["tasks", "list", "--database-url"],
        ["enqueue", "prices", "--", "--api-key", "canary"],
    ],
)
def test_other_words_stay_as_they_are(words: list[str]) -> None:
    """S7: what has no secret is not touched."""
    assert without_secrets(words) == (words, {})


async def test_a_running_process_shows_no_password(database_url: str, tmp_path: Path) -> None:
    """S7: nor does it lose its other options."""
    url = make_conninfo(database_url, password="canary-of-the-database")
    assert conninfo_to_dict(url)["password"]
    words = ("serve", "--port", "0", "--json", "--database-url", url)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "regente",
        *words,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "REGENTE_DATA_DIR": str(tmp_path)},
    )
    assert process.stdout is not None

    command_line = Path(f"/proc/{process.pid}/cmdline")

    async def is_hidden() -> bool:
        shown = await asyncio.to_thread(command_line.read_bytes)
        return b"--port" in shown and b"canary" not in shown

    try:
        await eventually_async(is_hidden)
        assert b'"url"' in await asyncio.wait_for(process.stdout.readline(), 60)
    finally:
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == 0
