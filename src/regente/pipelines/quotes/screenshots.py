"""Screenshots of fetched pages, by a Chromium that reaches nothing but the page itself.

The page is untrusted. Chromium shows the text that was fetched, the one that the evidence's SHA-256
is of: its only way out is a proxy of ours, which has this page and refuses everything else, and the
page runs no scripts, frames or redirects. So it shows no images and styles of other addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from regente.engine.log import logger

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ADDRESS = "http://page.invalid/"
POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
AT_ONCE = 2
LIMIT_SECONDS = 30.0
MAX_BYTES = 4_000_000
MAX_HEAD_BYTES = 16_384
PNG = b"\x89PNG\r\n\x1a\n"
FLAGS = (
    "--headless",
    "--proxy-bypass-list=<-loopback>",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-first-run",
    "--window-size=1280,1600",
)


class Screenshots:
    """Takes few at once: each is a browser of its own."""

    def __init__(self, chromium: str, *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._chromium = chromium
        self._limit_seconds = limit_seconds
        self._turns = asyncio.Semaphore(AT_ONCE)

    @classmethod
    def of(cls, *, wanted: bool, chromium: str | None) -> Screenshots | None:
        """With the given Chromium, or one that is installed."""
        if not wanted:
            return None
        found = chromium or next((path for name in NAMES if (path := shutil.which(name))), None)
        if found is None:
            logger.warning(
                "no screenshots: there is no Chromium here; install one, or set "
                "REGENTE_QUOTES_CHROMIUM to its path"
            )
        return cls(found) if found else None

    async def take(self, html: str) -> bytes | None:
        """The page as PNG; None, with a warning, if Chromium makes none in time."""
        async with self._turns:
            with tempfile.TemporaryDirectory(prefix="regente-page-") as folder:
                try:
                    async with asyncio.timeout(self._limit_seconds), _page_alone(html) as proxy:
                        return await self._taken(Path(folder), proxy)
                except (TimeoutError, OSError) as error:
                    logger.warning("no screenshot: %s", error or "Chromium took too long")
                    return None

    async def _taken(self, folder: Path, proxy: str) -> bytes | None:
        image = folder / "page.png"
        flags = [
            *FLAGS,
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            f"--proxy-server={proxy}",
            f"--user-data-dir={folder / 'profile'}",
            f"--screenshot={image}",
        ]
        async with _browser([self._chromium, *flags, ADDRESS]) as code:
            png = image.read_bytes() if image.exists() else b""
        if png.startswith(PNG) and len(png) <= MAX_BYTES:
            return png
        logger.warning("no screenshot: Chromium ended with %s and %d bytes", code, len(png))
        return None


@contextlib.asynccontextmanager
async def _browser(command: list[str]) -> AsyncIterator[int]:
    """The exit code of the browser; the processes that it started end with the block."""
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        yield await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@contextlib.asynccontextmanager
async def _page_alone(html: str) -> AsyncIterator[str]:
    """An HTTP proxy that has this page, and refuses every other address."""
    body = html.encode("utf-8", "replace")
    page = _response("200 OK", body, f"content-security-policy: {POLICY}\r\n")
    refusal = _response("403 Forbidden", b"")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(page if head.startswith(f"GET {ADDRESS} ".encode()) else refusal)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
    try:
        yield "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()


def _response(status: str, body: bytes, headers: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n{headers}"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
