"""`regente writer` as a command: its key, its refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import httpx2

from tests.services.writer.writer_process import ROOT


def test_a_key_is_made_and_shown_once_when_there_is_none(database_url: str) -> None:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("REGENTE_WRITER_")
    }
    command = [
        sys.executable,
        "-m",
        "regente",
        "writer",
        "--port",
        "0",
        "--json",
        "--database-url",
        database_url,
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        url = f"{told['url']}/status/x"
        assert httpx2.get(url, trust_env=False).status_code == 401
        assert (
            httpx2.get(url, headers={"x-api-key": told["api_key"]}, trust_env=False).status_code
            == 404
        )
        process.terminate()
    assert process.returncode == 0


def test_a_target_without_a_schema_is_refused(database_url: str) -> None:
    command = [
        sys.executable,
        "-m",
        "regente",
        "writer",
        "--port",
        "0",
        "--allow",
        "ads",
        "--database-url",
        database_url,
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 2
    assert "schema.table" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_that_does_not_answer_is_told_in_one_line() -> None:
    url = "postgresql://someone:canary-secret@127.0.0.1:1/nowhere"
    command = [sys.executable, "-m", "regente", "writer", "--port", "0", "--database-url", url]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 1
    assert "PostgreSQL" in done.stderr
    assert "Traceback" not in done.stderr
    assert "canary-secret" not in done.stderr
