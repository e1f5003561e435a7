"""A real `regente up --demo` with its console, and a browser, for journeys and screenshots.

python -m tests.e2e.environment /tmp/demo.json     keep one up; REGENTE_E2E_DEMO=/tmp/demo.json lets
the journeys use it
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from playwright.async_api import Browser, async_playwright
from scripts.chromium import HOW, find

from regente.api.access.keys import ApiKeys
from regente.api.access.principal import Role
from regente.api.queries import LimitedDatabase
from regente.app import Regente
from regente.postgres.embedded import EmbeddedPostgres

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
]
# Batches are reviewed often, so that a stalled one is found within a test's time limit.
ENVIRONMENT = {
    "REGENTE_BATCHES_SECONDS": "0.3",
    "COLUMNS": "300",
    "NO_COLOR": "1",
    "PYTHONUNBUFFERED": "1",
}
START_SECONDS = 180.0


@dataclass(slots=True)
class Demo:
    url: str
    sign_in: str
    api_key: str
    database_url: str
    folder: Path
    library: str = ""
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=self.url, headers={"x-api-key": self.api_key}, trust_env=False, timeout=30
        )


@asynccontextmanager
async def demo_up(database_url: str, folder: Path) -> AsyncIterator[Demo]:
    """Yields when the console responds; `settled` is set when the demo's 24 missions have ended."""
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "REGENTE_DATABASE_URL": database_url,
        "REGENTE_DATA_DIR": str(folder),
    }
    words = ("-m", "regente", "up", "--demo", "--port", "0")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment
    )
    said: list[str] = []
    try:
        sign_in = await _heard(process, said, r"Sign in to the console \(valid once\): (\S+)")
        demo = Demo(
            sign_in.split("/sign-in")[0],
            sign_in,
            await _admin_key(database_url),
            database_url,
            folder,
        )
        readers = [
            asyncio.create_task(_listen(stream, said, demo))
            for stream in (process.stdout, process.stderr)
            if stream
        ]
        yield demo
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 40)
    await asyncio.gather(*readers)


@asynccontextmanager
async def own_server() -> AsyncIterator[tuple[str, Path]]:
    """A temporary PostgreSQL and its folder."""
    with tempfile.TemporaryDirectory(prefix="regente-e2e-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server of a root user runs as another one
        server = await asyncio.to_thread(EmbeddedPostgres.acquire, folder / "server")
        try:
            yield server.url, folder / "data"
        finally:
            server.release()


def running_demo(path: Path) -> Demo:
    demo = Demo(**{**json.loads(path.read_text("utf-8")), "folder": path.parent})
    demo.settled.set()
    return demo


async def _keep_up(path: Path) -> None:
    async with own_server() as (url, folder), demo_up(url, folder) as demo:
        await demo.settled.wait()
        told = {
            name: getattr(demo, name)
            for name in ("url", "sign_in", "api_key", "database_url", "library")
        }
        path.write_text(json.dumps(told), "utf-8")
        print(f"{demo.url} is up; {path} says how to reach it. Ctrl-C ends it.")
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await stop.wait()
        path.unlink()


async def _heard(process: Process, said: list[str], pattern: str) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(START_SECONDS):
        while line := (await process.stdout.readline()).decode():
            said.append(line)
            if found := re.search(pattern, line):
                return found[1]
    assert process.stderr is not None
    raise AssertionError(
        f"regente up --demo ended: {''.join(said)}{(await process.stderr.read()).decode()}"
    )


async def _listen(stream: asyncio.StreamReader, said: list[str], demo: Demo) -> None:
    while line := (await stream.readline()).decode():
        said.append(line)
        if found := re.search(r"The ad library is at (\S+?)\. ", line):
            demo.library = found[1]
        if line.startswith("Running: "):
            demo.settled.set()


async def _admin_key(database_url: str) -> str:
    async with Regente(database_url) as app:
        return (
            await ApiKeys(LimitedDatabase(app.database)).create("journeys", Role.ADMIN, by="tests")
        ).secret


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    found = find()
    if found is None:
        raise AssertionError(HOW)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        await browser.close()


if __name__ == "__main__":
    asyncio.run(_keep_up(Path(sys.argv[1])))
