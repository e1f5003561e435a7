"""`regente serve` as a real process."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2


@asynccontextmanager
async def command(
    url: str,
    folder: Path,
    *words: str,
    kill: bool = False,
    port: int | None = 0,
    open_files: int | None = None,
) -> AsyncIterator[dict[str, Any]]:
    """Runs the command and yields its output; at the end the process is stopped or killed."""

    def limit_files() -> None:
        if open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))

    environment = {**os.environ, "REGENTE_DATABASE_URL": url, "REGENTE_DATA_DIR": str(folder)}
    with (folder / "serve.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "regente",
            "serve",
            "--port",
            str(port),
            "--json",
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=environment,
            preexec_fn=limit_files,
        )
    assert process.stdout is not None
    try:
        yield json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
    finally:
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == (-signal.SIGKILL if kill else 0)


@asynccontextmanager
async def caller(url: str, headers: dict[str, str]) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(
        base_url=url, headers=headers, trust_env=False, timeout=30, verify=False
    ) as client:
        yield client
