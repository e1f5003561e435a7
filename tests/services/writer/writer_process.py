"""A writer as a separate process, for tests that kill it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.services.writer.client import KEY

ROOT = Path(__file__).parents[3]


class WriterProcess:
    def __init__(self, database_url: str, *options: str) -> None:
        words = ["writer", "--port", "0", "--allow-private", "--create-ads", "--json", *options]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "regente", *words],
            cwd=ROOT,
            env=os.environ
            | {"REGENTE_WRITER_API_KEY": KEY, "REGENTE_WRITER_DATABASE_URL": database_url},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]

    def peak_megabytes(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(
            int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")
        )

    def send(self, sign: signal.Signals) -> None:
        self._process.send_signal(sign)

    def wait(self) -> int:
        return self._process.wait(30)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
