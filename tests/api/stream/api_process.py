"""`regente serve` as a process, to be killed and started again on the same port."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path


class ApiProcess:
    def __init__(self, database_url: str, folder: Path) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = os.environ | {
            "REGENTE_DATABASE_URL": database_url,
            "REGENTE_DATA_DIR": str(folder),
        }
        self._log = folder / f"serve-{self.port}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "regente",
                "serve",
                "--port",
                str(self.port),
                "--json",
                env=self._environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            assert json.loads(await self._process.stdout.readline())["url"]

    def said(self) -> str:
        return self._log.read_text("utf-8")

    def resident_bytes(self) -> int:
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    async def kill(self) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def terminate(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return await self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
