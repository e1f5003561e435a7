"""The demo as a subprocess of the server, for the console's button. It ends with the server."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

from regente.cli.parent_watch import VARIABLE
from regente.postgres.embedded import default_data_dir
from regente.settings import Settings


class DemoSubprocess:
    def __init__(self, settings: Settings) -> None:
        self._data_dir = settings.data_dir or default_data_dir()
        self._database_url = settings.database_url or ""
        self._process: Process | None = None
        self._starting = asyncio.Lock()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the demo, unless it runs or is starting."""
        async with self._starting:
            if not self.running:
                self._process = await self._start()

    async def _start(self) -> Process:
        shared = {
            "REGENTE_DATABASE_URL": self._database_url,
            "REGENTE_DATA_DIR": str(self._data_dir),
            VARIABLE: "1",
        }
        with _log(self._data_dir / "logs").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "regente",
                "up",
                "--demo",
                "--port",
                "0",
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=log,
                env={**os.environ, **shared},
                start_new_session=True,
            )


def _log(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "demo.log"
